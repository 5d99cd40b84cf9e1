//! [`Store`]: a server to measure, and [`Floors`]: what it does without locks.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lock_core::Backend;
use tokio::task::JoinSet;

use super::StoreKind;
use crate::{error::Result, samples::Samples, timestamp::Timestamp};

/// A store: the locks on it, and what its server does without them.
#[async_trait]
pub(crate) trait Store: fmt::Debug + Send + Sync {
    fn kind(&self) -> StoreKind;

    /// What is measured, and where: a line for people.
    fn description(&self) -> String;

    /// For other processes: `host:port`, or the path of a file. `None` if they cannot reach it.
    fn address(&self) -> Option<String>;

    /// The process of the server. `None` if this process did not start it.
    fn server_pid(&self) -> Option<u32> {
        None
    }

    /// A client of its own.
    fn backend(&self) -> Result<Arc<dyn Backend>>;

    /// A client without locks. `None` if there is no server.
    async fn floors(&self) -> Result<Option<Arc<dyn Floors>>> {
        Ok(None)
    }

    /// Writes to the store all the time. `None` where that makes no difference.
    async fn background_writes(&self) -> Result<Option<BackgroundWrites>> {
        Ok(None)
    }

    /// One link of a chain of messages. `None` if the store has no messages.
    async fn forwarder(&self, _from: &str, _to: &str) -> Result<Option<Box<dyn Forwarder>>> {
        Ok(None)
    }

    /// How many commands the server has run. `None` if no server counts them, or if it counts pings, too.
    async fn command_counts(&self) -> Result<Option<CommandCounts>> {
        Ok(None)
    }
}

/// A task that writes until this is dropped.
pub(crate) type BackgroundWrites = JoinSet<Result<()>>;

/// A client without locks, on one connection as the client of our locks.
#[async_trait]
pub(crate) trait Floors: fmt::Debug + Send + Sync {
    /// The shortest request that there is, one after the other.
    async fn pings(&self, stop: Stop) -> Result<Samples>;

    /// Pairs of acquire and release, written by hand without a library, one after the other.
    async fn pairs(&self, key: &str, stop: Stop) -> Result<Samples>;

    /// Pairs on the lock of another project. `None` if the store has no such lock.
    async fn rival(&self, _rival: Rival, _name: &str, _stop: Stop) -> Result<Option<Samples>> {
        Ok(None)
    }
}

/// When a loop of pairs or pings ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// After so many.
    After(u64),
    /// At this time.
    At(Instant),
}

impl Stop {
    pub(crate) fn should_continue(self, done: u64) -> bool {
        match self {
            Self::After(count) => done < count,
            Self::At(time) => Instant::now() < time,
        }
    }
}

/// A lock of another project on the same server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// The lock that the server or the client crate has.
    BuiltIn,
    /// The lock of Apache Curator, in Java.
    Curator,
}

/// A link in a chain of messages: it receives a message on one channel and sends it on to another.
#[async_trait]
pub(crate) trait Forwarder: fmt::Debug + Send {
    /// Takes part in one round. Returns how long each of its messages took.
    async fn run(&mut self, round: ForwardingRound) -> Result<Vec<MessageLatency>>;
}

/// How long a message took, from the call that publishes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageLatency {
    /// Until it was received.
    pub(crate) received: Duration,
    /// Until its receiver knew what a waiter has to know before it holds a lock: the floor of a hand-off.
    pub(crate) certain: Duration,
}

impl MessageLatency {
    /// Of a message that leaves nothing to be asked.
    pub(crate) fn of_receipt(received: Duration) -> Self {
        Self { received, certain: received }
    }
}

/// How the links of a chain forward messages in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardingRound {
    /// Whether to publish the first message.
    pub(crate) first: bool,
    /// How long to keep a message before it is sent on.
    pub(crate) hold: Duration,
    /// When to end the round; the same for each link.
    pub(crate) until: Timestamp,
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandCounts {
    /// Commands that clients sent for locks.
    pub(crate) sent: u64,
    /// Commands that scripts called on the server.
    pub(crate) inside: u64,
}

impl CommandCounts {
    pub(crate) fn since(self, before: Self) -> Self {
        Self { sent: self.sent - before.sent, inside: self.inside - before.inside }
    }
}
