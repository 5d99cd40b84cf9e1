//! A mutex on Redis that is created by plain commands, and by a script only where somebody waits: the proposal of ADR 28.
//!
//! Requests of a client are in the order of its connection, until it gives the connection up: then a create may still arrive, and any
//! answer may be lost. Only what the proposal changes is explored: the other models have the rest of the protocol.

mod config;
mod model;
mod promises;
mod store;

pub(crate) use self::{
    config::{Config, Mutation},
    model::PlainCommands,
    promises::{ALWAYS, EXCLUSION, LEFT_BEHIND, LOSS, ORDER, Promise, SOMETIMES, STRANDED},
};
