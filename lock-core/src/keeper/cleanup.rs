//! [`Cleanup`]: what dropped guards and futures left behind, tried again until the store confirms it, or none of it can be there any more.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    handle::Keeper,
    leave_lanes::{Lane, LeaveLanes, Task},
    pending_leave::PendingLeave,
};
use crate::{
    BackOff, Backend, BackendError, BackendErrorKind, BootTime, Creates, Departure, Entropy, Entry,
    closing::Closing,
    event_log::{Event, EventLog},
    panic_isolation::catch_panic,
    sync::{Condvar, Mutex},
    telemetry,
};

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
    lanes: LeaveLanes,
}

/// The handle of a [`PendingLeave`], made before its owner lets go of the entry: a close always finds one or the other.
///
/// Its drop hands the leave over to the keeper, which tries until the store confirms it, or nothing of the entry can be there any more. That
/// never blocks, and needs no runtime.
#[must_use = "its drop leaves the rest to the keeper"]
pub(crate) struct ScheduledLeave {
    cleanup: Arc<Cleanup>,
    key: u64,
    leave: PendingLeave,
    lane: Lane,
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

    /// Notes that an entry has to leave, whose lease ends at `lease_end` as counted from the last request. Runs no foreign code.
    pub(crate) fn schedule_leave(
        self: &Arc<Self>,
        entry: Arc<Entry>,
        creates: Creates,
        lease_end: BootTime,
    ) -> ScheduledLeave {
        let leave = PendingLeave::new(entry, creates, lease_end);
        let mut state = self.state.lock();
        let key = state.next_key;
        state.next_key += 1;
        state.pending.insert(key, leave.clone());
        drop(state);
        ScheduledLeave { cleanup: Arc::clone(self), key, leave, lane: Lane::Known, done: false }
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
        let Some(task) = self.state.lock().lanes.push(task) else { return };
        let cleanup = Arc::clone(self);
        self.keeper.spawn(async move { cleanup.work(task).await });
    }

    /// A worker: leaves for one entry of its lane after the other, and yields to the keeper's other tasks in between.
    async fn work(self: &Arc<Self>, mut task: Task) {
        let lane = task.lane;
        loop {
            self.attempt(task).await;
            let Some(next) = self.next_task(lane) else { return };
            task = next;
            tokio::task::yield_now().await;
        }
    }

    fn next_task(&self, lane: Lane) -> Option<Task> {
        self.state.lock().lanes.pop(lane)
    }

    /// Leaves for an entry. If that fails, it is tried again after a pause, in which other entries have their turn.
    async fn attempt(self: &Arc<Self>, mut task: Task) {
        let PendingLeave { entry, creates, free_by } = task.leave.clone();
        if task.failures == 0 {
            telemetry::cleanup_owed(&entry);
        }
        // More may come than can be tried, so what is over meanwhile is not tried.
        let answer = if task.lane != Lane::Known && self.is_over(free_by) {
            Err(self.not_tried())
        } else {
            self.leave(&entry, creates).await
        };
        if let Err(error) = answer {
            if !self.is_over(free_by) {
                task.failures = task.failures.saturating_add(1);
                // In a session, attempts have no limit: they are logged at the first failure, and then each time the number of failures has doubled.
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

    /// Whether an entry that is free by then ended by itself. One in a session that others share does not, as long as the session lives.
    fn is_over(&self, free_by: BootTime) -> bool {
        !self.backend.guarantees().shared_leases && self.keeper.now() >= free_by
    }

    fn not_tried(&self) -> BackendError {
        let message = "it was not tried any more, because nothing of it can be there";
        BackendError::new(self.backend.guarantees().store, BackendErrorKind::Unavailable, message).unsent()
    }

    fn retry_later(self: &Arc<Self>, mut task: Task) {
        task.lane = Lane::Retries;
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
    /// When nothing of the entry can be in the store any more without any request, by our clock.
    pub(crate) fn free_by(&self) -> BootTime {
        self.leave.free_by
    }

    /// No answer has told of the entry: it need not be in the store, and those that are go first.
    pub(crate) fn doubtful(mut self) -> Self {
        self.lane = Lane::Doubtful;
        self
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
            let leave = self.leave.clone();
            self.cleanup.start(Task { key: self.key, leave, failures: 0, lane: self.lane });
        }
    }
}
