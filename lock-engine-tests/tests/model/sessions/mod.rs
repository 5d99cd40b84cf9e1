//! Stores in which the entries of a client live as long as its session, and a waiter watches the entries ahead of it: etcd and
//! `ZooKeeper`.

mod config;
mod model;
mod promises;
mod system_state;

pub(crate) use self::{
    config::{Config, Mutation},
    model::Sessions,
    promises::{ALWAYS, EXCLUSION, NOBODYS_ENTRY, ORPHAN, Promise, SOMETIMES, TOGETHER, WOKEN},
    system_state::{Client, Phase, SystemState},
};
