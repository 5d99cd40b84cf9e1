//! [`Store`]: a server to measure, with its floors.

#[cfg(feature = "etcd")]
mod etcd;
mod memory;
// The source that tests have; what is measured does not stand on the crate that tests it.
#[path = "../../../lock-conformance/src/port.rs"]
#[allow(dead_code, unreachable_pub, reason = "it is public there, and all of it is of use")]
mod port;
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "zk")]
mod zk;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::Backend;
use serde::{Deserialize, Serialize};

use tokio::task::JoinSet;

use crate::{Result, args::StoreKind, samples::Samples, timestamp::Timestamp, uncontended::Stop};

/// A store: the locks on it, and what its server does without them.
#[async_trait]
pub(crate) trait Store: fmt::Debug + Send + Sync {
    fn kind(&self) -> StoreKind;

    /// What is measured, and where: a line for people.
    fn about(&self) -> String;

    /// For other processes, or none if it cannot be reached from them.
    fn address(&self) -> Option<String>;

    /// The process of the server, or none if it is not ours.
    fn server(&self) -> Option<u32>;

    /// A client of its own.
    fn backend(&self) -> Result<Arc<dyn Backend>>;

    /// A client without locks, or none if there is no server.
    async fn floors(&self) -> Result<Option<Arc<dyn Floors>>>;

    /// Somebody who writes to the store all the time, or none where that makes no difference.
    async fn noise(&self) -> Result<Option<Noise>>;

    /// One link of a chain of messages, or none if the store has no messages.
    async fn relay(&self, from: &str, to: &str) -> Result<Option<Box<dyn Relay>>>;

    /// How many commands the server has run up to now, or none if there is no server that counts.
    async fn commands(&self) -> Result<Option<Commands>>;
}

/// It ends when it is dropped.
pub(crate) type Noise = JoinSet<Result<()>>;

/// A client without locks: one connection, as ours has.
#[async_trait]
pub(crate) trait Floors: fmt::Debug + Send + Sync {
    /// The shortest request that there is, one after the other.
    async fn pings(&self, stop: Stop) -> Result<Samples>;

    /// What everybody writes who takes a lock without a library, and gives it back: one pair after the other.
    async fn pairs(&self, key: &str, stop: Stop) -> Result<Samples>;

    /// Pairs on a lock of others, or none if there is none.
    async fn rival(&self, rival: Rival, name: &str, stop: Stop) -> Result<Option<Samples>>;
}

/// A lock of others on the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// That of the server, or of the client crate.
    Own,
    /// That of Apache Curator, in Java.
    Curator,
}

/// Listens on one channel, and passes on to another.
#[async_trait]
pub(crate) trait Relay: fmt::Debug + Send {
    /// Takes part for one round, and gives the latencies from the call that publishes a message to its receipt.
    async fn run(&mut self, leg: Leg) -> Result<Vec<Duration>>;
}

/// How one round of a relay goes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Leg {
    /// Whether to publish the first message.
    pub(crate) first: bool,
    /// How long to keep a message before it is passed on.
    pub(crate) hold: Duration,
    /// When to end the chain. Every link has the same.
    pub(crate) until: Timestamp,
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commands {
    /// What clients sent for locks.
    pub(crate) sent: u64,
    /// What was called inside of that, by scripts on the server.
    pub(crate) inside: u64,
}

impl Commands {
    pub(crate) fn since(self, before: Self) -> Self {
        Self { sent: self.sent - before.sent, inside: self.inside - before.inside }
    }
}

/// Starts a server. It ends when the store is dropped.
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
