//! [`ZkFloors`]: what the server does without our locks, over the same crate and with the same settings; and the locks of
//! other projects.

use std::{
    fmt, mem,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use tokio::sync::Mutex;
use zookeeper_client::{Client, CreateMode, LockOptions, LockPrefix};

use super::{
    client::{ALL, connect},
    curator::Curator,
};
use crate::{
    error::Result,
    samples::Samples,
    store::{Floors, Rival, Stop},
};

/// A client without locks: one session, as the client of our locks has.
pub(super) struct ZkFloors {
    client: Client,
    address: String,
    curator: Mutex<Option<Curator>>,
}

impl ZkFloors {
    pub(super) async fn new(address: &str) -> Result<Self> {
        Ok(Self { client: connect(address).await?, address: address.to_owned(), curator: Mutex::default() })
    }

    /// The lock of the client crate.
    async fn pairs_of_client_crate(&self, name: &str, stop: Stop) -> Result<Samples> {
        let mut samples = Samples::default();
        let directory = path(name);
        self.client.mkdir(&directory, &CreateMode::Container.with_acls(ALL)).await?;
        while stop.should_continue(samples.len()) {
            let started = Instant::now();
            let prefix = LockPrefix::new_curator(&directory, "latch-")?;
            let lock = self.client.lock(prefix, b"", LockOptions::new(ALL)).await?;
            // Its own release happens on drop, and nothing tells when it is done. This is the same request, and is awaited.
            let node = lock.lock_path().to_owned();
            mem::forget(lock);
            self.client.delete(&node, None).await?;
            samples.record(started.elapsed());
        }
        Ok(samples)
    }

    /// The lock of Curator, as its process measures it once it is warm.
    async fn pairs_of_curator(&self, name: &str, stop: Stop) -> Result<Samples> {
        let mut curator = self.curator.lock().await;
        let curator = match &mut *curator {
            Some(curator) => curator,
            none => none.insert(Curator::start(&self.address).await?),
        };
        let mut samples = Samples::default();
        while stop.should_continue(samples.len()) {
            for nanos in curator.pairs(&path(name), BATCH).await? {
                samples.record(Duration::from_nanos(nanos));
            }
        }
        Ok(samples)
    }
}

/// Pairs that Curator runs for one request.
const BATCH: u64 = 100;

fn path(name: &str) -> String {
    format!("/{}", name.replace('/', ":"))
}

impl fmt::Debug for ZkFloors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkFloors").finish_non_exhaustive()
    }
}

#[async_trait]
impl Floors for ZkFloors {
    /// A read of a node that is not there.
    async fn pings(&self, stop: Stop) -> Result<Samples> {
        let mut samples = Samples::default();
        while stop.should_continue(samples.len()) {
            let started = Instant::now();
            self.client.check_stat("/ping").await?;
            samples.record(started.elapsed());
        }
        Ok(samples)
    }

    /// A sequential ephemeral node and a look at its parent, in one go, and the deletion of the node.
    async fn pairs(&self, key: &str, stop: Stop) -> Result<Samples> {
        let mut samples = Samples::default();
        let parent = path(key);
        self.client.mkdir(&parent, &CreateMode::Persistent.with_acls(ALL)).await?;
        let (prefix, options) = (format!("{parent}/n-"), CreateMode::EphemeralSequential.with_acls(ALL));
        while stop.should_continue(samples.len()) {
            let started = Instant::now();
            let create = self.client.create(&prefix, b"", &options);
            let look = self.client.check_stat(&parent);
            let (created, looked) = tokio::join!(create, look);
            let (_, sequence) = created?;
            let alone = looked?.is_some_and(|stat| stat.num_children == 1);
            self.client.delete(&format!("{prefix}{sequence}"), None).await?;
            samples.record(started.elapsed());
            if !alone {
                return Err(format!("the raw pair on `{key}` was disturbed").into());
            }
        }
        Ok(samples)
    }

    async fn rival(&self, rival: Rival, name: &str, stop: Stop) -> Result<Option<Samples>> {
        let samples = match rival {
            Rival::BuiltIn => self.pairs_of_client_crate(&format!("{name}:own"), stop).await?,
            Rival::Curator => self.pairs_of_curator(&format!("{name}:curator"), stop).await?,
        };
        Ok(Some(samples))
    }
}
