//! [`Cleanup`]: what dropped guards and futures left behind, tried again until the store confirms it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use super::handle::Keeper;
use crate::{
    BackOff, Backend, BackendError, BackendErrorKind, BootTime, Creates, Departure, Entropy, Entry,
    closing::Closing,
    event_log::{Event, EventLog},
    panic_isolation::catch_panic,
    sync::{Condvar, Mutex},
    telemetry,
};

/// How many leave at the same time. The others wait: each is logged, which is foreign code, and must not keep the keeper from renewals.
const MAX_AT_ONCE: usize = 64;

const BACK_OFF: BackOff = BackOff { least: Duration::from_millis(20), most: Duration::from_secs(5) };

/// The entries that have to leave their queues, and have not been confirmed to have left.
#[derive(Debug)]
pub(crate) struct Cleanup {
    backend: Arc<dyn Backend>,
    keeper: Keeper,
    entropy: Arc<dyn Entropy>,
    event_log: Arc<EventLog>,
    closing: Arc<Closing>,
    state: Mutex<State>,
    /// Notified when nothing is pending any more.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next_key: u64,
    pending: BTreeMap<u64, PendingLeave>,
    /// How many workers run on the keeper.
    running: usize,
    /// What they do next.
    waiting: VecDeque<Task>,
}

/// An entry that the keeper has to leave for, and how often it failed.
#[derive(Debug)]
struct Task {
    key: u64,
    leave: PendingLeave,
    failures: u32,
}

/// An entry that has to leave its queue, and is not confirmed to have left.
#[derive(Clone, Debug)]
pub(crate) struct PendingLeave {
    pub(crate) entry: Arc<Entry>,
    creates: Creates,
    /// When its lease ends in the store without any request.
    pub(crate) free_by: BootTime,
}

/// The handle of a [`PendingLeave`], made before its owner lets go of the entry: a close always finds one or the other.
///
/// Its drop hands the leave over to the keeper, which tries until the store confirms it. That never blocks, and needs no runtime.
#[must_use = "its drop leaves the rest to the keeper"]
pub(crate) struct ScheduledLeave {
    cleanup: Arc<Cleanup>,
    key: u64,
    leave: PendingLeave,
    done: bool,
}

impl Cleanup {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        keeper: Keeper,
        entropy: Arc<dyn Entropy>,
        event_log: Arc<EventLog>,
        closing: Arc<Closing>,
    ) -> Self {
        Self {
            backend,
            keeper,
            entropy,
            event_log,
            closing,
            state: Mutex::default(),
            emptied: Condvar::new(),
        }
    }

    /// Notes that an entry has to leave. Runs no foreign code.
    pub(crate) fn schedule_leave(
        self: &Arc<Self>,
        entry: Arc<Entry>,
        creates: Creates,
        free_by: BootTime,
    ) -> ScheduledLeave {
        let leave = PendingLeave { entry, creates, free_by };
        let mut state = self.state.lock();
        let key = state.next_key;
        state.next_key += 1;
        state.pending.insert(key, leave.clone());
        drop(state);
        ScheduledLeave { cleanup: Arc::clone(self), key, leave, done: false }
    }

    /// What has not left yet.
    pub(crate) fn pending(&self) -> Vec<PendingLeave> {
        self.state.lock().pending.values().cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().pending.is_empty()
    }

    /// Blocks this thread until nothing is pending, for `limit` at the most. Returns at once when no keeper works on it any more.
    pub(crate) fn wait_until_empty(&self, limit: Duration) {
        /// How often to check that the keeper is still there: its end is not signalled.
        const SLICE: Duration = Duration::from_millis(50);
        let began = Instant::now();
        let mut state = self.state.lock();
        while !state.pending.is_empty() && self.keeper.is_at_work() {
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return;
            }
            state = self.emptied.wait_for(state, left.min(SLICE));
        }
    }

    /// Leaves for an entry as soon as a worker is free.
    fn start(self: &Arc<Self>, task: Task) {
        let mut state = self.state.lock();
        if state.running == MAX_AT_ONCE {
            return state.waiting.push_back(task);
        }
        state.running += 1;
        drop(state);
        let cleanup = Arc::clone(self);
        self.keeper.spawn(async move { cleanup.work(task).await });
    }

    /// A worker: leaves for one entry after the other, and yields to the keeper's other tasks in between.
    async fn work(self: &Arc<Self>, mut task: Task) {
        loop {
            self.attempt(task).await;
            let Some(next) = self.next_task() else { return };
            task = next;
            tokio::task::yield_now().await;
        }
    }

    /// The next task of a worker. If there is none, the worker ends.
    fn next_task(&self) -> Option<Task> {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        state.running -= usize::from(next.is_none());
        next
    }

    /// Leaves for an entry. If that fails, it is tried again after a pause, in which other entries have their turn.
    async fn attempt(self: &Arc<Self>, mut task: Task) {
        let PendingLeave { entry, creates, free_by } = task.leave.clone();
        if task.failures == 0 {
            telemetry::cleanup_owed(&entry);
        }
        if let Err(error) = self.leave(&entry, creates).await {
            // A lease that is not shared ends at its ttl, and if every create was answered, nothing brings the entry back.
            let expires_alone = !self.backend.guarantees().shared_leases && creates == Creates::Answered;
            if !expires_alone || self.keeper.now() < free_by {
                task.failures = task.failures.saturating_add(1);
                // Attempts have no limit: they are logged at the first failure, and then each time the number of failures has doubled.
                if task.failures.is_power_of_two() {
                    self.event_log.note(Event::StoreAway { entry, verb: "leave", error });
                }
                return self.retry_later(task);
            }
            self.event_log.note(Event::CleanupAbandoned { entry: Arc::clone(&entry), error });
        }
        telemetry::cleanup_settled(&entry);
        self.confirm(task.key);
    }

    fn retry_later(self: &Arc<Self>, task: Task) {
        let pause = BACK_OFF.pause(task.failures, self.entropy.bits() as u64);
        let (cleanup, pause) = (Arc::clone(self), self.keeper.sleep_until(self.keeper.now() + pause));
        self.keeper.spawn(async move {
            pause.await;
            cleanup.start(task);
        });
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        catch_panic(self.backend.guarantees().store, self.backend.leave(entry, creates))
            .await
            .and_then(|answer| answer)
    }

    fn confirm(&self, key: u64) {
        let mut state = self.state.lock();
        let left = state.pending.remove(&key);
        let emptied = state.pending.is_empty();
        drop(state);
        drop(left);
        if emptied {
            self.emptied.notify_all();
        }
        self.closing.notify_gone();
    }
}

impl ScheduledLeave {
    /// When its lease ends in the store without any request, by our clock.
    pub(crate) fn free_by(&self) -> BootTime {
        self.leave.free_by
    }

    /// Leaves on the caller's own runtime. If that fails, or the future is dropped, the keeper takes over.
    pub(crate) async fn leave_now(mut self) -> Result<Departure, BackendError> {
        let PendingLeave { entry, creates, .. } = &self.leave;
        let departure = match self.cleanup.leave(entry, *creates).await {
            // The connection that broke may have been idle for an hour: a new one may work, so try once more before an error is reported.
            Err(error) if error.is_transient() && *error.kind() != BackendErrorKind::TimedOut => {
                let again = self.cleanup.leave(entry, *creates).await;
                // If the first one did it, the second finds nothing: that is our own departure.
                if error.is_unsent() { again } else { again.map(|_| Departure::Left) }
            }
            answer => answer,
        }?;
        self.done = true;
        self.cleanup.confirm(self.key);
        Ok(departure)
    }
}

impl Drop for ScheduledLeave {
    fn drop(&mut self) {
        // In a fork the entry is the parent's, and so is its keeper.
        if !self.done && !self.cleanup.keeper.is_forked() {
            self.cleanup.start(Task { key: self.key, leave: self.leave.clone(), failures: 0 });
        }
    }
}
