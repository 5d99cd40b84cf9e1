//! [`CountingBackend`]: a backend that counts the calls it passes on.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, Entry, Guarantees, Keeper, Lease, Locks, Operator,
    Renewal, Standing, Step, SystemEntropy, WaitMode,
};
use tokio::sync::Notify;

tokio::task_local! {
    /// Whether the last enter of this task was answered with a place, or was sent from one. If so, a lock that it gets was
    /// handed over; otherwise the lock was free when the task asked.
    pub(crate) static WAITED: Cell<bool>;
}

/// Passes each call on to another backend, and counts it.
#[derive(Clone, Debug)]
pub(crate) struct CountingBackend {
    inner: Arc<dyn Backend>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    requests: AtomicU64,
    entries: AtomicU64,
    /// Notified after each enter.
    answered: Notify,
}

impl CountingBackend {
    pub(crate) fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, counters: Arc::default() }
    }

    /// Locks on this backend.
    pub(crate) fn locks(&self) -> Locks {
        Locks::with(Arc::new(self.clone()), Keeper::shared(), Arc::new(SystemEntropy))
    }

    /// How often a verb was called. Each is one request.
    pub(crate) fn requests(&self) -> u64 {
        self.counters.requests.load(Ordering::SeqCst)
    }

    /// How many enters were answered with a place in the queue, or with the lock.
    pub(crate) fn entries(&self) -> u64 {
        self.counters.entries.load(Ordering::SeqCst)
    }

    /// Waits until there were so many entries in all.
    pub(crate) async fn wait_for_entries(&self, entries: u64) {
        loop {
            let mut answered = std::pin::pin!(self.counters.answered.notified());
            answered.as_mut().enable();
            if self.entries() >= entries {
                return;
            }
            answered.await;
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

#[async_trait]
impl Backend for CountingBackend {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        count(&self.counters.requests);
        let standing = self.inner.enter(entry, step, wait).await;
        if matches!(standing, Ok(Standing::Admitted { .. } | Standing::Waiting { .. })) {
            count(&self.counters.entries);
        }
        // Only tasks of a benchmark have this variable.
        let waited = matches!(step, Step::Again(_)) || matches!(standing, Ok(Standing::Waiting { .. }));
        let _ = WAITED.try_with(|flag| flag.set(waited));
        self.counters.answered.notify_waiters();
        standing
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        count(&self.counters.requests);
        self.inner.renew(leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        count(&self.counters.requests);
        self.inner.leave(entry, creates).await
    }

    async fn give_back(&self) {
        self.inner.give_back().await;
    }

    fn alarms(&self) -> Alarms {
        self.inner.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        self.inner.guarantees()
    }

    fn operator(&self) -> &dyn Operator {
        self.inner.operator()
    }
}
