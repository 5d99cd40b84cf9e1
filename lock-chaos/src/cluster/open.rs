//! [`start`]: which cluster belongs to which store.

use super::{etcd::Etcd, interface::Cluster, redis::Redis, sqlite::Sqlite, zookeeper::ZooKeeper};
use crate::{error::Result, store_kind::StoreKind};

/// Starts a cluster, and returns when all members serve.
///
/// # Panics
/// If a server is not installed, or does not start.
pub(crate) async fn start(store: StoreKind) -> Result<Box<dyn Cluster>> {
    let cluster: Box<dyn Cluster> = match store {
        StoreKind::Redis => Box::new(Redis::start().await?),
        StoreKind::Etcd => Box::new(Etcd::start().await?),
        StoreKind::Zookeeper => Box::new(ZooKeeper::start().await?),
        StoreKind::Sqlite => Box::new(Sqlite::create()?),
    };
    Ok(cluster)
}
