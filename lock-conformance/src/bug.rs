//! [`Bug`]: what is wrong with a backend, to see that a case finds it.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, Diagnosis, Entry, EntryId, Guarantees, Lease,
    LockName, Operator, QueueRow, Renewal, Standing, Step, WaitMode,
};

use crate::Harness;

/// A bug of a backend: each verb as it goes wrong, given the store without the bug. What a bug does not touch is passed
/// on as it is.
#[async_trait]
pub trait Bug: fmt::Debug + Send + Sync + 'static {
    /// [`Backend::enter`].
    async fn enter(
        &self,
        store: &dyn Backend,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        store.enter(entry, step, wait).await
    }

    /// [`Backend::renew`].
    async fn renew(&self, store: &dyn Backend, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        store.renew(leases).await
    }

    /// [`Backend::leave`].
    async fn leave(
        &self,
        store: &dyn Backend,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        store.leave(entry, creates).await
    }

    /// [`Operator::queue`].
    async fn queue(&self, store: &dyn Backend, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        store.operator().queue(name).await
    }
}

/// No bug at all, to see that a case passes without one.
#[derive(Clone, Copy, Debug)]
pub struct Sound;

impl Bug for Sound {}

/// Gives each new client of a store a bug. The harness is that of the store, which some bugs have to reach on their own.
pub type MakeBug = fn(&dyn Harness) -> Arc<dyn Bug>;

/// A backend with a bug.
#[derive(Debug)]
pub(crate) struct Buggy {
    store: Arc<dyn Backend>,
    bug: Arc<dyn Bug>,
}

impl Buggy {
    pub(crate) fn new(store: Arc<dyn Backend>, bug: Arc<dyn Bug>) -> Self {
        Self { store, bug }
    }
}

#[async_trait]
impl Backend for Buggy {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        self.bug.enter(&*self.store, entry, step, wait).await
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.bug.renew(&*self.store, leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        self.bug.leave(&*self.store, entry, creates).await
    }

    fn alarms(&self) -> Alarms {
        self.store.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        self.store.guarantees()
    }

    fn operator(&self) -> &dyn Operator {
        self
    }
}

#[async_trait]
impl Operator for Buggy {
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        self.bug.queue(&*self.store, name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        self.store.operator().list(prefix).await
    }

    async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError> {
        self.store.operator().evict(name, entry).await
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        self.store.operator().diagnose().await
    }
}
