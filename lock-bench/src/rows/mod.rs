//! The rows of the table: one file for the rows that are measured together, each a [`Measurement`].

mod catalog;
mod commands;
mod figure;
mod handoff;
mod held;
mod measurement;
mod pair;
mod plan;
mod run_command;
mod takeover;
mod throughput;
mod waiters;

pub(crate) use self::{
    catalog::{all, specs},
    figure::{Bound, Figure, RowSpec},
    measurement::{Bench, Measurement, Outcome},
    plan::Plan,
};
