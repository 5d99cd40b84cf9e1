//! [`Operator`]: how people and tools look at the queues of a store, and remove entries.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use crate::{BackendError, Claim, Departure, EntryId, FencingToken, LockName};

/// Looks at queues, and removes entries by force. Every backend implements it.
#[async_trait]
pub trait Operator: fmt::Debug + Send + Sync {
    /// The queue of a name as it is now, holders first, then the waiters in order. The dead are left out.
    ///
    /// # Errors
    /// [`BackendError`] if the store cannot be asked, or the name holds data that is not a lock.
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError>;

    /// The names with a live queue that start with `prefix`, sorted. Not a snapshot: a name that comes or goes meanwhile
    /// may be in it or not.
    ///
    /// # Errors
    /// [`BackendError`] if the store cannot be asked.
    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError>;

    /// Takes an entry out of a queue by force. If it held the lock, its lost signal fires, and the next is admitted.
    ///
    /// The evicted client may still be working: only a resource that checks fencing tokens is protected from that.
    ///
    /// # Errors
    /// [`BackendError`] if the store cannot be asked.
    async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError>;

    /// Facts about the store, and what is wrong with its settings.
    ///
    /// # Errors
    /// [`BackendError`] if the store cannot be asked.
    async fn diagnose(&self) -> Result<Diagnosis, BackendError>;
}

/// One row of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRow {
    /// The entry, or `None` for a holder of another library.
    pub entry: Option<EntryId>,
    /// What it asks for.
    pub claim: Claim,
    /// Whether it holds the lock.
    pub admitted: bool,
    /// Its fencing token. `None` for a holder of another library, and for one whose token only its client knows: on Redis, that of a mutex
    /// for which nobody waited, until its first renewal.
    pub token: Option<FencingToken>,
    /// How long its lease has left, or `None` if it does not end by itself.
    pub lease_left: Option<Duration>,
    /// Describes the client, for people.
    pub label: Option<String>,
}

/// What [`Operator::diagnose`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// Facts, as `("version", "7.0.15")`.
    pub facts: Vec<(&'static str, String)>,
    /// What is wrong, and what to do about it: one sentence each. Empty if all is well.
    pub problems: Vec<String>,
}
