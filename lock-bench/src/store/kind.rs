//! [`StoreKind`]: which stores can be measured.

use clap::ValueEnum;

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
