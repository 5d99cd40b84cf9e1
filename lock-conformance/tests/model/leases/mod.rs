//! Stores on which every entry has a lease of its own, and whoever leaves hands the lock on: memory, Redis, `SQLite`.

mod canon;
mod client;
mod config;
mod engine;
mod model;
pub(crate) mod promises;
mod show;
mod store;
mod world;

pub(crate) use self::{
    client::{Call, Client, Guard, Listening, Phase, Place},
    config::{Clocks, Config, Hinting, Hole, Purging},
    model::Leases,
    promises::Promise,
    store::{Reply, Request, Store, Verb},
    world::World,
};
pub(crate) use crate::words::{Id, Ticks, Token};
