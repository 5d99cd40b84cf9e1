//! The rows of the table: one file for the rows that are measured together, each a [`Measurement`].

mod catalog;
mod commands;
mod handoff;
mod held;
mod kinds;
mod measurement;
mod pair;
mod plan;
mod row_figures;
mod row_spec;
mod run_command;
mod takeover;
mod throughput;
mod two_workers;
mod waiters;

pub(crate) use self::{
    catalog::{all, specs},
    measurement::{Bench, Measurement, Outcome},
    plan::Plan,
    row_figures::{Figure, RowFigures},
    row_spec::{Bound, RowSpec},
};
