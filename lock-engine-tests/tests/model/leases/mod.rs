//! Stores with a lease for each entry, on which a leave admits the next: memory, Redis, `SQLite`.

mod canonical;
mod client;
mod config;
mod display;
mod engine;
mod model;
pub(crate) mod promises;
mod store;
mod system_state;

pub(crate) use self::{
    client::{Call, Client, Guard, Listening, Phase, Place},
    config::{Clocks, Config, Hinting, Mutation, Purging},
    model::Leases,
    promises::Promise,
    store::{Reply, Request, Store, Verb},
    system_state::SystemState,
};
pub(crate) use crate::types::{Id, Ticks, Token};
