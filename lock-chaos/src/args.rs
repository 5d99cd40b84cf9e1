//! [`Args`]: the command line.

use std::path::PathBuf;

use clap::Parser;

use crate::store_kind::StoreKind;

/// Breaks a real cluster while clients take locks on it, and checks what they saw. `scripts/chaos` calls it.
///
/// The exit code is 0 if every promise was kept, 1 if one was broken, and 2 if that could not be found out.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) enum Args {
    /// Starts a cluster and clients, breaks them, and checks what the clients saw
    Run(RunArgs),
    /// One of the clients: takes locks until it is told to end by SIGTERM
    #[command(hide = true)]
    Client(ClientArgs),
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[arg(long, value_enum)]
    pub(crate) store: StoreKind,

    /// For how long things go wrong; after that, it takes a minute or two to see that all is well again
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) minutes: u64,

    /// Decides what goes wrong, and what the clients do
    #[arg(long)]
    pub(crate) seed: u64,

    /// Where the logs, the histories and the result go; what is in it is deleted
    #[arg(long)]
    pub(crate) folder: PathBuf,
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ClientArgs {
    #[arg(long)]
    pub(crate) url: String,

    /// The number that its lines have
    #[arg(long)]
    pub(crate) number: usize,

    #[arg(long)]
    pub(crate) seed: u64,
}
