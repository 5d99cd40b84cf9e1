//! [`Member`]: one process of those that measure something together, be it this one or another.

use std::{sync::Arc, time::Duration};

use lock_core::{Keeper, Locks, SystemEntropy};
use serde::{Deserialize, Serialize};

use crate::{
    Result,
    counted::Counted,
    heap::Heap,
    ring::{Grant, Ring},
    store::{Leg, Relay, Store},
};

/// What a member is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Make a ring on this mutex.
    Ring { name: String },
    /// One more contender for the ring.
    Join,
    /// Let the lock go round.
    Turn { hold: Duration, length: Duration },
    /// End the ring.
    Disband,
    /// Listen on one channel, to pass on to the other.
    Listen { from: String, to: String },
    /// Take part in a relay.
    Relay(Leg),
    /// Take this mutex and keep it: answers with each new proof of its lease, until the process ends.
    Hold { name: String, ttl: Duration },
    /// Take so many locks that nobody else wants, and keep them.
    Keep { locks: u64, ttl: Duration },
    /// Give back what is kept.
    GiveBack,
}

/// What a member answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    /// What was granted in this process.
    Grants(Vec<Grant>),
    /// From the call that published a message to its receipt in this process.
    Latencies(Vec<Duration>),
    /// The lease is good until then, on the clock of the boot time, in nanoseconds.
    Proved(crate::nanos::Nanos),
    /// What was kept is given back, but for so many locks, which had been lost.
    GivenBack {
        lost: u64,
    },
    /// It went wrong.
    Failed(String),
}

/// Does what it is told.
#[derive(Debug)]
pub(crate) struct Member {
    store: Arc<dyn Store>,
    counted: Counted,
    locks: Locks,
    ring: Option<Ring>,
    relay: Option<Box<dyn Relay>>,
    kept: Heap,
}

impl Member {
    pub(crate) fn new(store: Arc<dyn Store>, counted: Counted) -> Self {
        let locks = Locks::with(Arc::new(counted.clone()), Keeper::shared(), Arc::new(SystemEntropy));
        Self { store, counted, locks, ring: None, relay: None, kept: Heap::default() }
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    pub(crate) async fn obey(&mut self, order: Order) -> Reply {
        self.try_to(order).await.unwrap_or_else(|error| Reply::Failed(error.to_string()))
    }

    async fn try_to(&mut self, order: Order) -> Result<Reply> {
        match order {
            Order::Ring { name } => self.ring = Some(Ring::new(&self.counted, &self.locks, &name)?),
            Order::Join => self.ring()?.join().await?,
            Order::Turn { hold, length } => return Ok(Reply::Grants(self.ring()?.turn(hold, length).await?)),
            Order::Disband => self.ring.take().ok_or("there is no ring")?.disband().await?,
            Order::Listen { from, to } => self.relay = self.store.relay(&from, &to).await?,
            Order::Relay(leg) => {
                // A store without messages has none to be late.
                let Some(relay) = &mut self.relay else { return Ok(Reply::Latencies(Vec::new())) };
                return Ok(Reply::Latencies(relay.run(leg).await?));
            }
            Order::Keep { locks, ttl } => self.kept.take(&self.locks, locks, ttl).await?,
            Order::GiveBack => return Ok(Reply::GivenBack { lost: self.kept.give_back().await? }),
            Order::Hold { .. } => return Err("only a process of its own can be told to hold".into()),
        }
        Ok(Reply::Done)
    }

    fn ring(&mut self) -> Result<&mut Ring> {
        self.ring.as_mut().ok_or_else(|| "there is no ring".into())
    }
}
