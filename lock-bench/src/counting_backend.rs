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
    enters: AtomicU64,
    admitted: AtomicU64,
    waiting: AtomicU64,
    renews: AtomicU64,
    leaves: AtomicU64,
    /// Notified after each enter.
    answered: Notify,
}

/// How often each verb was called, and how often an enter was answered with the lock or with a place in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallCounts {
    pub(crate) enters: u64,
    pub(crate) admitted: u64,
    pub(crate) waiting: u64,
    pub(crate) renews: u64,
    pub(crate) leaves: u64,
}

impl CallCounts {
    /// Each is one request.
    pub(crate) fn requests(self) -> u64 {
        self.enters + self.renews + self.leaves
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            enters: self.enters - before.enters,
            admitted: self.admitted - before.admitted,
            waiting: self.waiting - before.waiting,
            renews: self.renews - before.renews,
            leaves: self.leaves - before.leaves,
        }
    }
}

impl CountingBackend {
    pub(crate) fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, counters: Arc::default() }
    }

    /// Locks on this backend.
    pub(crate) fn locks(&self) -> Locks {
        Locks::with(Arc::new(self.clone()), Keeper::shared(), Arc::new(SystemEntropy))
    }

    pub(crate) fn counts(&self) -> CallCounts {
        let Counters { enters, admitted, waiting, renews, leaves, .. } = &*self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        CallCounts {
            enters: read(enters),
            admitted: read(admitted),
            waiting: read(waiting),
            renews: read(renews),
            leaves: read(leaves),
        }
    }

    /// Waits until so many enters in all were answered with a place or the lock.
    pub(crate) async fn wait_for_entries(&self, entries: u64) {
        loop {
            let mut answered = std::pin::pin!(self.counters.answered.notified());
            answered.as_mut().enable();
            let counts = self.counts();
            if counts.admitted + counts.waiting >= entries {
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
        count(&self.counters.enters);
        let standing = self.inner.enter(entry, step, wait).await;
        match &standing {
            Ok(Standing::Admitted { .. }) => count(&self.counters.admitted),
            Ok(Standing::Waiting { .. }) => count(&self.counters.waiting),
            _ => {}
        }
        // Only tasks of a benchmark have this variable.
        let waited = matches!(step, Step::Again(_)) || matches!(standing, Ok(Standing::Waiting { .. }));
        let _ = WAITED.try_with(|flag| flag.set(waited));
        self.counters.answered.notify_waiters();
        standing
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        count(&self.counters.renews);
        self.inner.renew(leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        count(&self.counters.leaves);
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
