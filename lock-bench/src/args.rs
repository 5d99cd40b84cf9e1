//! [`Args`]: what the user asks for.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::{
    Result,
    compare::{CompareArgs, DriverArgs},
};

/// Benchmarks distlock on a server that it starts itself, beside the floors of that server.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    /// The store to measure; a server is started for it
    #[arg(long, value_enum, required = true)]
    store: Option<StoreKind>,

    /// Take at most 120 s: fewer rounds, and no rows that take long
    #[arg(long)]
    pub(crate) quick: bool,

    /// How often the floor and ours are measured in turn, instead of 27 times, or 9 if it is quick
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
    pub(crate) task: Option<Task>,
}

impl Args {
    pub(crate) fn store(&self) -> Result<StoreKind> {
        self.store.ok_or_else(|| "--store is missing".into())
    }
}

/// A store that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// The memory of this process: what the library costs without a server
    Memory,
    /// `redis-server`, on a free port of the loopback interface
    Redis,
    /// `etcd`, on a free port of the loopback interface
    #[cfg(feature = "etcd")]
    Etcd,
    /// A file in the folder for temporary files
    #[cfg(feature = "sqlite")]
    Sqlite,
    /// ZooKeeper, on a free port of the loopback interface
    #[cfg(feature = "zk")]
    Zk,
}

impl StoreKind {
    /// Whether it is the store whose bounds are those of etcd.
    pub(crate) fn is_etcd(self) -> bool {
        self.name() == "etcd"
    }

    /// Whether it is the store whose bounds are those of SQLite.
    pub(crate) fn is_sqlite(self) -> bool {
        self.name() == "sqlite"
    }

    /// Whether it is the store whose bounds are those of ZooKeeper.
    pub(crate) fn is_zk(self) -> bool {
        self.name() == "zk"
    }

    /// As it is written on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            #[cfg(feature = "etcd")]
            Self::Etcd => "etcd",
            #[cfg(feature = "sqlite")]
            Self::Sqlite => "sqlite",
            #[cfg(feature = "zk")]
            Self::Zk => "zk",
        }
    }
}

/// What else the binary does: to compare, and what it is started for by itself.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Task {
    Compare(CompareArgs),
    /// Drives our locks, or a floor, for `compare`
    #[command(hide = true)]
    Driver(DriverArgs),
    /// One of several processes: does what it is told on its standard input
    #[command(hide = true)]
    Worker(WorkerArgs),
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    #[arg(long, value_enum)]
    pub(crate) store: StoreKind,
    #[arg(long)]
    pub(crate) address: String,
}
