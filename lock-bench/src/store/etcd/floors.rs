//! [`EtcdFloors`]: what the server does without our locks, over the same crate and with the same settings.

use std::{fmt, time::Instant};

use async_trait::async_trait;
use etcd_client::{Client, Compare, CompareOp, GetOptions, LockOptions, PutOptions, Txn, TxnOp};

use crate::{
    error::Result,
    samples::Samples,
    store::{Floors, Rival, Stop},
};

/// A client without locks: one connection, as the client of our locks has, and a lease.
pub(super) struct EtcdFloors {
    client: Client,
    lease: i64,
}

const TTL_S: i64 = 3600;

impl EtcdFloors {
    pub(super) async fn new(mut client: Client) -> Result<Self> {
        let lease = client.lease_grant(TTL_S, None).await?.id();
        Ok(Self { client, lease })
    }
}

impl fmt::Debug for EtcdFloors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdFloors").field("lease", &self.lease).finish_non_exhaustive()
    }
}

#[async_trait]
impl Floors for EtcdFloors {
    /// A serializable read of a key that does not exist.
    async fn pings(&self, stop: Stop) -> Result<Samples> {
        let (mut client, mut samples) = (self.client.clone(), Samples::default());
        while stop.should_continue(samples.len()) {
            let started = Instant::now();
            client.get("ping", Some(GetOptions::new().with_serializable())).await?;
            samples.record(started.elapsed());
        }
        Ok(samples)
    }

    /// A transaction that creates the key under a lease if it does not exist, and the deletion of the key.
    async fn pairs(&self, key: &str, stop: Stop) -> Result<Samples> {
        let (mut client, mut samples) = (self.client.clone(), Samples::default());
        while stop.should_continue(samples.len()) {
            let started = Instant::now();
            let lease = PutOptions::new().with_lease(self.lease);
            let create = Txn::new()
                .when([Compare::create_revision(key, CompareOp::Equal, 0)])
                .and_then([TxnOp::put(key, "", Some(lease))]);
            let created = client.txn(create).await?.succeeded();
            let deleted = client.delete(key, None).await?.deleted();
            samples.record(started.elapsed());
            if !created || deleted != 1 {
                return Err(format!("the raw pair on `{key}` was disturbed").into());
            }
        }
        Ok(samples)
    }

    /// The lock service of the server, v3lock.
    async fn rival(&self, rival: Rival, name: &str, stop: Stop) -> Result<Option<Samples>> {
        if rival != Rival::BuiltIn {
            return Ok(None);
        }
        let (mut client, mut samples) = (self.client.clone(), Samples::default());
        while stop.should_continue(samples.len()) {
            let started = Instant::now();
            let lease = LockOptions::new().with_lease(self.lease);
            let key = client.lock(name, Some(lease)).await?.key().to_vec();
            client.unlock(key).await?;
            samples.record(started.elapsed());
        }
        Ok(Some(samples))
    }
}
