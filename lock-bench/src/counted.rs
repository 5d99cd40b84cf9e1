//! [`Counted`]: a backend that counts what goes through it.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, Entry, Guarantees, Lease, Operator, Renewal, Standing,
    Step, WaitMode,
};
use tokio::sync::Notify;

tokio::task_local! {
    /// Whether the last enter of this task was answered with a place, or was a look from one. What it then gets was handed
    /// to it: it did not find the lock free when it came.
    pub(crate) static WAITED: Cell<bool>;
}

/// A backend that counts what goes through it.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
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
    /// An enter was answered.
    answered: Notify,
}

/// How often each verb was called, or an enter answered so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verbs {
    pub(crate) enters: u64,
    pub(crate) admitted: u64,
    pub(crate) waiting: u64,
    pub(crate) renews: u64,
    pub(crate) leaves: u64,
}

impl Verbs {
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

impl Counted {
    pub(crate) fn new(inner: Arc<dyn Backend>) -> Self {
        Self { inner, counters: Arc::default() }
    }

    pub(crate) fn verbs(&self) -> Verbs {
        let Counters { enters, admitted, waiting, renews, leaves, .. } = &*self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        Verbs {
            enters: read(enters),
            admitted: read(admitted),
            waiting: read(waiting),
            renews: read(renews),
            leaves: read(leaves),
        }
    }

    /// Waits until so many enters in all were answered with a place or the lock.
    pub(crate) async fn stand(&self, entries: u64) {
        loop {
            let mut answered = std::pin::pin!(self.counters.answered.notified());
            answered.as_mut().enable();
            let verbs = self.verbs();
            if verbs.admitted + verbs.waiting >= entries {
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
impl Backend for Counted {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        count(&self.counters.enters);
        let standing = self.inner.enter(entry, step, wait).await;
        match &standing {
            Ok(Standing::Admitted { .. }) => count(&self.counters.admitted),
            Ok(Standing::Waiting { .. }) => count(&self.counters.waiting),
            _ => {}
        }
        // Not every caller wants to know.
        let stood = matches!(step, Step::Again(_)) || matches!(standing, Ok(Standing::Waiting { .. }));
        let _ = WAITED.try_with(|waited| waited.set(stood));
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
