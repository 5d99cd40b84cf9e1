//! [`Args`]: the command line.

use std::path::PathBuf;

use clap::Parser;

use crate::{compare::CompareArgs, drivers::DriverArgs, error::Result, store::StoreKind};

/// Benchmarks distlock on a server that it starts, beside the floors of that server.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    /// The store to measure; a server is started for it
    #[arg(long, value_enum, required = true)]
    store: Option<StoreKind>,

    /// Take at most 120 s: fewer rounds, and no rows that take long
    #[arg(long)]
    pub(crate) quick: bool,

    /// How often the floor and our locks are measured in turn, instead of 27 times, or 9 with `--quick`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: Option<u32>,

    /// Only these rows, or groups of rows: `pair`, `handoff.10`, `handoff.10.p50`
    #[arg(long, value_name = "ROW,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Write the rows to this file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Fail when a bound is missed
    #[arg(long)]
    pub(crate) check: bool,

    #[command(subcommand)]
    pub(crate) subcommand: Option<Subcommand>,
}

impl Args {
    pub(crate) fn store(&self) -> Result<StoreKind> {
        self.store.ok_or_else(|| "--store is missing".into())
    }
}

/// What the binary does beside the table: the comparison, and the processes that measurements start.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    Compare(CompareArgs),
    /// Drives our locks, or a floor: handles requests from its standard input
    #[command(hide = true)]
    Driver(DriverArgs),
}
