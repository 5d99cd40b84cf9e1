//! [`Cleanup`]: what dropped guards and futures left behind, tried again until the store confirms it.

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::FutureExt;

use super::Keeper;
use crate::{
    BackOff, Backend, BackendError, BackendErrorKind, BootTime, Creates, Departure, Entropy, Entry,
    closing::Closing,
    journal::{Event, Journal},
    telemetry,
    wakers::panic_text,
};

/// So many leave at once, and the others after them: what is logged of it is code of others, and must not keep the keeper from
/// renewals.
const AT_ONCE: usize = 64;

const BACK_OFF: BackOff = BackOff { least: Duration::from_millis(20), most: Duration::from_secs(5) };

/// The entries that have to leave their queues, and have not been confirmed to have left.
#[derive(Debug)]
pub(crate) struct Cleanup {
    backend: Arc<dyn Backend>,
    keeper: Keeper,
    entropy: Arc<dyn Entropy>,
    journal: Arc<Journal>,
    closing: Arc<Closing>,
    debts: Mutex<Debts>,
    /// The last debt is settled.
    settled: Condvar,
}

#[derive(Debug, Default)]
struct Debts {
    next: u64,
    all: BTreeMap<u64, Debt>,
    /// Tasks that leave for one after the other.
    at_work: usize,
    /// What they are to do next.
    waiting: VecDeque<Task>,
}

/// A debt that the keeper has to settle, and how often it has tried.
#[derive(Debug)]
struct Task {
    key: u64,
    debt: Debt,
    failures: u32,
}

/// One entry that has to leave.
#[derive(Clone, Debug)]
pub(crate) struct Debt {
    pub(crate) entry: Arc<Entry>,
    creates: Creates,
    /// When its lease ends on the store's own account.
    pub(crate) free_by: BootTime,
}

/// An entry that has to leave, from before its owner lets go of it: so whoever closes the client always finds one or the other.
/// Dropped, it is the keeper's, which tries until the store confirms it. That never blocks, and needs no runtime: a `Drop` does it.
#[must_use = "dropped, it is left to the keeper"]
pub(crate) struct Owed {
    cleanup: Arc<Cleanup>,
    key: u64,
    debt: Debt,
    settled: bool,
}

impl Cleanup {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        keeper: Keeper,
        entropy: Arc<dyn Entropy>,
        journal: Arc<Journal>,
        closing: Arc<Closing>,
    ) -> Self {
        Self { backend, keeper, entropy, journal, closing, debts: Mutex::default(), settled: Condvar::new() }
    }

    /// Takes note that an entry has to leave. Runs no code of others.
    pub(crate) fn owe(self: &Arc<Self>, entry: Arc<Entry>, creates: Creates, free_by: BootTime) -> Owed {
        let debt = Debt { entry, creates, free_by };
        let mut debts = self.lock();
        let key = debts.next;
        debts.next += 1;
        debts.all.insert(key, debt.clone());
        drop(debts);
        Owed { cleanup: Arc::clone(self), key, debt, settled: false }
    }

    /// The debts there are now.
    pub(crate) fn debts(&self) -> Vec<Debt> {
        self.lock().all.values().cloned().collect()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.lock().all.is_empty()
    }

    /// Blocks this thread until nothing is owed, for so long at the most. Ends as soon as nobody settles anything any more.
    pub(crate) fn wait_settled(&self, limit: Duration) {
        /// How often it is looked whether the keeper is there: nobody tells of its end.
        const SLICE: Duration = Duration::from_millis(50);
        let began = Instant::now();
        let mut debts = self.lock();
        while !debts.all.is_empty() && self.keeper.is_at_work() {
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            let waited = self.settled.wait_timeout(debts, left.min(SLICE));
            debts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Settles a debt as soon as it is its turn.
    fn take_up(self: &Arc<Self>, task: Task) {
        let mut debts = self.lock();
        if debts.at_work == AT_ONCE {
            return debts.waiting.push_back(task);
        }
        debts.at_work += 1;
        drop(debts);
        let cleanup = Arc::clone(self);
        self.keeper.spawn(async move { cleanup.work(task).await });
    }

    /// Settles one debt after the other. In between, others on the keeper have their turn.
    async fn work(self: &Arc<Self>, mut task: Task) {
        loop {
            self.settle(task).await;
            let Some(next) = self.next_task() else { return };
            task = next;
            tokio::task::yield_now().await;
        }
    }

    /// What is to be done next. If there is nothing, one less is at work.
    fn next_task(&self) -> Option<Task> {
        let mut debts = self.lock();
        let next = debts.waiting.pop_front();
        debts.at_work -= usize::from(next.is_none());
        next
    }

    /// Leaves for an entry. If that fails, it is tried again after a pause, in which others are left for.
    async fn settle(self: &Arc<Self>, mut task: Task) {
        let Debt { entry, creates, free_by } = task.debt.clone();
        if task.failures == 0 {
            telemetry::cleanup_owed(&entry);
        }
        if let Err(error) = self.leave(&entry, creates).await {
            // A lease that is its own ends at its ttl, and if every create was answered, nothing can bring it back.
            let dies_alone = !self.backend.guarantees().shared_leases && creates == Creates::Answered;
            if !dies_alone || self.keeper.now() < free_by {
                task.failures = task.failures.saturating_add(1);
                // It may be tried for ever: told the first time, and each time after twice as many tries.
                if task.failures.is_power_of_two() {
                    self.journal.note(Event::StoreAway { entry, verb: "leave", error });
                }
                return self.try_again(task);
            }
            self.journal.note(Event::CleanupAbandoned { entry: Arc::clone(&entry), error });
        }
        telemetry::cleanup_settled(&entry);
        self.forget(task.key);
    }

    fn try_again(self: &Arc<Self>, task: Task) {
        let pause = BACK_OFF.pause(task.failures, self.entropy.bits() as u64);
        let (cleanup, pause) = (Arc::clone(self), self.keeper.sleep_until(self.keeper.now() + pause));
        self.keeper.spawn(async move {
            pause.await;
            cleanup.take_up(task);
        });
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        guarded(self.backend.guarantees().store, self.backend.leave(entry, creates))
            .await
            .and_then(|answer| answer)
    }

    fn forget(&self, key: u64) {
        let mut debts = self.lock();
        let debt = debts.all.remove(&key);
        let settled = debts.all.is_empty();
        drop(debts);
        drop(debt);
        if settled {
            self.settled.notify_all();
        }
        self.closing.is_gone();
    }

    fn lock(&self) -> MutexGuard<'_, Debts> {
        // Nothing panics while the debts are held, and each change to them is whole.
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owed {
    /// When its lease ends on the store's own account, by our clock.
    pub(crate) fn free_by(&self) -> BootTime {
        self.debt.free_by
    }

    /// Leaves on the caller's own runtime. If that fails, or the future is dropped, the keeper takes over.
    pub(crate) async fn leave_now(mut self) -> Result<Departure, BackendError> {
        let Debt { entry, creates, .. } = &self.debt;
        let departure = match self.cleanup.leave(entry, *creates).await {
            // The connection that broke may have been idle for an hour; a new one is worth a try before we give bad news.
            Err(error) if error.is_transient() && *error.kind() != BackendErrorKind::TimedOut => {
                let again = self.cleanup.leave(entry, *creates).await;
                // If the first one did it, the second finds nothing: that is our own departure.
                if error.is_unsent() { again } else { again.map(|_| Departure::Left) }
            }
            answer => answer,
        }?;
        self.settled = true;
        self.cleanup.forget(self.key);
        Ok(departure)
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        // In a fork the entry is the parent's, and so is its keeper.
        if !self.settled && !self.cleanup.keeper.is_forked() {
            self.cleanup.take_up(Task { key: self.key, debt: self.debt.clone(), failures: 0 });
        }
    }
}

/// Turns a panic of a backend into an error, which means *unknown* like any other.
pub(crate) async fn guarded<T>(
    store: &'static str,
    verb: impl Future<Output = T> + Send,
) -> Result<T, BackendError> {
    AssertUnwindSafe(verb).catch_unwind().await.map_err(|panic| {
        let text = panic_text(&*panic);
        BackendError::new(store, BackendErrorKind::Panicked, format!("panicked: {text}"))
    })
}
