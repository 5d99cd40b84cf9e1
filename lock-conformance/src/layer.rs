//! [`Layer`]: middleware between a client and its store.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, Diagnosis, Entry, EntryId, Guarantees, Lease,
    LockName, Operator, QueueRow, Renewal, Standing, Step, WaitMode,
};

/// A wrapper around the verbs of a backend, like a middleware. Each method gets the store behind, and by default passes the call on.
/// Bugs are layers that change something.
#[async_trait]
pub trait Layer: fmt::Debug + Send + Sync + 'static {
    /// [`Backend::enter`].
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        store.enter(entry, step, wait).await
    }

    /// [`Backend::renew`].
    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        store.renew(leases).await
    }

    /// [`Backend::leave`].
    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        store.leave(entry, creates).await
    }

    /// [`Backend::give_back`].
    async fn give_back(&self, store: &Arc<dyn Backend>) {
        store.give_back().await;
    }

    /// [`Backend::alarms`].
    fn alarms(&self, store: &Arc<dyn Backend>) -> Alarms {
        store.alarms()
    }

    /// [`Backend::guarantees`].
    fn guarantees<'a>(&'a self, store: &'a Arc<dyn Backend>) -> &'a Guarantees {
        store.guarantees()
    }

    /// [`Operator::queue`].
    async fn queue(&self, store: &Arc<dyn Backend>, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        store.operator().queue(name).await
    }

    /// [`Operator::evict`].
    async fn evict(
        &self,
        store: &Arc<dyn Backend>,
        name: &LockName,
        entry: EntryId,
    ) -> Result<Departure, BackendError> {
        store.operator().evict(name, entry).await
    }
}

/// A layer that changes nothing, to check that a case passes without a bug.
#[derive(Clone, Copy, Debug)]
pub struct Sound;

impl Layer for Sound {}

/// A store behind a layer.
#[derive(Clone, Debug)]
pub struct Layered {
    store: Arc<dyn Backend>,
    layer: Arc<dyn Layer>,
}

impl Layered {
    /// Puts a layer before a store.
    #[must_use]
    pub fn new(store: Arc<dyn Backend>, layer: Arc<dyn Layer>) -> Self {
        Self { store, layer }
    }
}

#[async_trait]
impl Backend for Layered {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        self.layer.enter(&self.store, entry, step, wait).await
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.layer.renew(&self.store, leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        self.layer.leave(&self.store, entry, creates).await
    }

    async fn give_back(&self) {
        self.layer.give_back(&self.store).await;
    }

    fn alarms(&self) -> Alarms {
        self.layer.alarms(&self.store)
    }

    fn guarantees(&self) -> &Guarantees {
        self.layer.guarantees(&self.store)
    }

    fn operator(&self) -> &dyn Operator {
        self
    }
}

#[async_trait]
impl Operator for Layered {
    async fn queue(&self, name: &LockName) -> Result<Vec<QueueRow>, BackendError> {
        self.layer.queue(&self.store, name).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LockName>, BackendError> {
        self.store.operator().list(prefix).await
    }

    async fn evict(&self, name: &LockName, entry: EntryId) -> Result<Departure, BackendError> {
        self.layer.evict(&self.store, name, entry).await
    }

    async fn diagnose(&self) -> Result<Diagnosis, BackendError> {
        self.store.operator().diagnose().await
    }
}
