//! [`Worker`]: one of the processes that take part in a measurement, this one or another.

use std::{sync::Arc, time::Duration};

use lock_core::Locks;
use serde::{Deserialize, Serialize};

use crate::{
    contenders::{Contenders, Grant},
    counting_backend::CountingBackend,
    error::Result,
    held_locks::HeldLocks,
    store::{Forwarder, ForwardingRound, MessageLatency, Store},
    timestamp::Timestamp,
};

/// What a worker is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Get ready to contend for this mutex.
    Contend { name: String },
    /// Add a contender.
    Join,
    /// Let the contenders take the lock in turn for so long.
    Run { hold: Duration, length: Duration },
    /// End all contenders.
    Finish,
    /// Listen on one channel, to forward messages to the other.
    Listen { from: String, to: String },
    /// Take part in one round of a chain of messages.
    Forward(ForwardingRound),
    /// Take this mutex and keep it: a reply follows each renewal, until the process ends.
    Hold { name: String, ttl: Duration },
    /// Take so many locks without contention, and keep them.
    Keep { locks: u64, ttl: Duration },
    /// Release the locks that are kept.
    GiveBack,
}

/// What a worker replies.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    /// What was granted in this process.
    Grants(Vec<Grant>),
    /// How long the messages of a chain took that this process timed.
    Latencies(Vec<MessageLatency>),
    /// The deadline of the lease that is held.
    Renewed(Timestamp),
    /// The locks that were kept are released. So many had been lost before.
    GivenBack {
        lost: u64,
    },
    /// It went wrong.
    Failed(String),
}

impl Reply {
    /// # Errors
    /// The reason of a failure.
    pub(crate) fn into_result(self) -> Result<Self> {
        match self {
            Self::Failed(why) => Err(why.into()),
            reply => Ok(reply),
        }
    }
}

/// Handles commands.
#[derive(Debug)]
pub(crate) struct Worker {
    store: Arc<dyn Store>,
    backend: CountingBackend,
    locks: Locks,
    contenders: Option<Contenders>,
    forwarder: Option<Box<dyn Forwarder>>,
    kept: HeldLocks,
}

impl Worker {
    pub(crate) fn new(store: Arc<dyn Store>, backend: CountingBackend) -> Self {
        let locks = backend.locks();
        Self { store, backend, locks, contenders: None, forwarder: None, kept: HeldLocks::default() }
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    pub(crate) async fn handle(&mut self, command: Command) -> Reply {
        self.try_to(command).await.unwrap_or_else(|error| Reply::Failed(error.to_string()))
    }

    async fn try_to(&mut self, command: Command) -> Result<Reply> {
        match command {
            Command::Contend { name } => {
                self.contenders = Some(Contenders::new(&self.backend, &self.locks, &name)?);
            }
            Command::Join => self.contenders()?.join().await?,
            Command::Run { hold, length } => {
                return Ok(Reply::Grants(self.contenders()?.run(hold, length).await?));
            }
            Command::Finish => self.contenders.take().ok_or("there are no contenders")?.finish().await?,
            Command::Listen { from, to } => self.forwarder = self.store.forwarder(&from, &to).await?,
            Command::Forward(round) => {
                // A store without messages has no latencies of messages.
                let Some(forwarder) = &mut self.forwarder else { return Ok(Reply::Latencies(Vec::new())) };
                return Ok(Reply::Latencies(forwarder.run(round).await?));
            }
            Command::Keep { locks, ttl } => self.kept.take(&self.locks, locks, ttl).await?,
            Command::GiveBack => return Ok(Reply::GivenBack { lost: self.kept.give_back().await? }),
            Command::Hold { .. } => return Err("only a worker in a process of its own can hold".into()),
        }
        Ok(Reply::Done)
    }

    fn contenders(&mut self) -> Result<&mut Contenders> {
        self.contenders.as_mut().ok_or_else(|| "there are no contenders".into())
    }
}
