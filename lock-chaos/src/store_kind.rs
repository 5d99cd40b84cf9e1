//! [`StoreKind`]: which stores can be broken.

use clap::ValueEnum;

/// A store, with the servers that it consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// One `redis-server`, which writes each command to its log before it answers
    Redis,
    /// A cluster of three members
    Etcd,
    /// An ensemble of three members
    Zookeeper,
    /// A file
    Sqlite,
}

impl StoreKind {
    /// How many servers there are.
    pub(crate) fn members(self) -> usize {
        match self {
            Self::Redis => 1,
            Self::Etcd | Self::Zookeeper => 3,
            Self::Sqlite => 0,
        }
    }
}
