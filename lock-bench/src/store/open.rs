//! [`start`] and [`connect`]: how a store is opened.

#[cfg(feature = "etcd")]
use super::etcd;
#[cfg(feature = "sqlite")]
use super::sqlite;
#[cfg(feature = "zk")]
use super::zk;
use super::{Store, StoreKind, memory, redis};
use crate::error::Result;

/// Starts a server. The server ends when the store is dropped.
pub(crate) async fn start(kind: StoreKind) -> Result<Box<dyn Store>> {
    Ok(match kind {
        StoreKind::Memory => Box::new(memory::MemoryStore::default()),
        StoreKind::Redis => Box::new(redis::RedisStore::start().await?),
        #[cfg(feature = "etcd")]
        StoreKind::Etcd => Box::new(etcd::EtcdStore::start().await?),
        #[cfg(feature = "sqlite")]
        StoreKind::Sqlite => Box::new(sqlite::SqliteStore::start()?),
        #[cfg(feature = "zk")]
        StoreKind::Zk => Box::new(zk::ZkStore::start().await?),
    })
}

/// A store whose server was started by another process.
pub(crate) fn connect(kind: StoreKind, address: &str) -> Result<Box<dyn Store>> {
    match kind {
        StoreKind::Memory => Err("the memory of another process cannot be reached".into()),
        StoreKind::Redis => Ok(Box::new(redis::RedisStore::at(address)?)),
        #[cfg(feature = "etcd")]
        StoreKind::Etcd => Ok(Box::new(etcd::EtcdStore::at(address))),
        #[cfg(feature = "sqlite")]
        StoreKind::Sqlite => Ok(Box::new(sqlite::SqliteStore::at(address))),
        #[cfg(feature = "zk")]
        StoreKind::Zk => Ok(Box::new(zk::ZkStore::at(address))),
    }
}
