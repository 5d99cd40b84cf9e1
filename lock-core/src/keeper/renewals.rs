//! [`Renewals`]: renews the leases of one client, and leaves for those that have ended.

mod batches;
mod due;
mod watchdog_check;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Weak},
};

use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::{
    cleanup::{Cleanup, ScheduledLeave},
    handle::Keeper,
    held_lease::HeldLease,
    registry::{Leave, Registry, Tracked},
    standstill::Standstill,
};
use crate::{
    Alarms, Backend, BackendError, BootTime, Creates, Entry, EntryId, Hold, Lease, LockName, LostReason,
    Renewal,
    closing::Closing,
    event_log::{Event, EventLog},
    hold::Extension,
    panic_isolation::{catch_panic, panic_text},
    sync::Mutex,
    telemetry,
};

/// How many alarms are followed up together: as many leases as have their renewals under way at the same time.
const ALARMS_PER_TURN: usize = 1024;

/// The leases of one client: those of guards, which it renews, and those of waiters, which refresh themselves by entering again. Each has
/// a dead-man's timer: when its deadline passes, the keeper leaves for it.
#[derive(Debug)]
pub(crate) struct Renewals {
    backend: Arc<dyn Backend>,
    keeper: Keeper,
    event_log: Arc<EventLog>,
    cleanup: Arc<Cleanup>,
    closing: Arc<Closing>,
    registry: Mutex<Registry>,
    wake: Arc<Notify>,
    standstill: Mutex<Standstill>,
}

impl Renewals {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        keeper: Keeper,
        event_log: Arc<EventLog>,
        cleanup: Arc<Cleanup>,
        closing: Arc<Closing>,
    ) -> Arc<Self> {
        let (registry, wake, standstill) = (Mutex::new(Registry::new()), Arc::default(), Mutex::default());
        Arc::new(Self { backend, keeper, event_log, cleanup, closing, registry, wake, standstill })
    }

    /// Renews a lock that was granted, until [`schedule_leave`](Self::schedule_leave). False if its entry was registered as waiting, and
    /// was given up meanwhile: then the keeper is leaving for it, and the grant of the store must not be relied on.
    pub(crate) fn register_held(self: &Arc<Self>, lease: HeldLease, registered: bool) -> bool {
        let (due, deadline) = (lease.next_due(self.keeper.now()), lease.hold.deadline());
        let accepted = self.register(lease.hold.entry_id(), due, Tracked::Held(lease), registered);
        self.keeper.expect_by(deadline);
        accepted
    }

    /// Registers a waiter whose lease is good until `valid_until`. It is doubtful if no answer has told of its entry. False as
    /// with [`register_held`](Self::register_held).
    pub(crate) fn register_waiting(
        self: &Arc<Self>,
        entry: Arc<Entry>,
        creates: Creates,
        doubtful: bool,
        valid_until: BootTime,
        registered: bool,
    ) -> bool {
        self.register(entry.id, valid_until, Tracked::Waiting { entry, creates, doubtful }, registered)
    }

    /// Removes a lease of which nothing is in the store. False if it is not registered.
    pub(crate) fn forget(&self, id: EntryId) -> bool {
        // Dropped only when the registry is unlocked: that may run foreign code.
        let tracked = self.registry.lock().remove(id);
        let was_registered = tracked.is_some();
        drop(tracked);
        self.closing.notify_gone();
        was_registered
    }

    /// Removes a lease and schedules its leave in one step: a close always finds one or the other. `None` if it is not registered:
    /// another task leaves for it, or has left.
    pub(crate) fn schedule_leave(
        &self,
        entry: &Arc<Entry>,
        creates: Creates,
        lease_end: BootTime,
    ) -> Option<ScheduledLeave> {
        let mut registry = self.registry.lock();
        let tracked = registry.remove(entry.id);
        let scheduled =
            tracked.as_ref().map(|_| self.cleanup.schedule_leave(Arc::clone(entry), creates, lease_end));
        drop(registry);
        scheduled
    }

    /// Registers nothing more, and leaves for all waiters. From here on nothing is granted.
    pub(crate) fn close(&self) {
        let now = self.keeper.now();
        let mut registry = self.registry.lock();
        let scheduled: Vec<_> = registry.close().into_iter().map(|leave| self.schedule(leave, now)).collect();
        drop(registry);
        drop(scheduled);
    }

    /// Whether no lease is registered.
    pub(crate) fn is_empty(&self) -> bool {
        self.registry.lock().is_empty()
    }

    /// The locks that are held, and those that were lost and that nobody has left for yet.
    pub(crate) fn holds(&self) -> Vec<Hold> {
        self.registry.lock().held_leases().map(|lease| lease.hold.clone()).collect()
    }

    /// The locks of this name that are held now.
    pub(crate) fn held_of(&self, name: &LockName) -> Vec<Hold> {
        let named: Vec<_> = self
            .registry
            .lock()
            .held_leases()
            .map(|lease| &lease.hold)
            .filter(|hold| hold.name() == name)
            .cloned()
            .collect();
        named.into_iter().filter(Hold::is_held).collect()
    }

    /// Renews one lease now, on the caller's runtime.
    pub(crate) async fn renew_now(&self, hold: &Hold) -> Result<(), BackendError> {
        let lease = Lease { entry: Arc::clone(hold.entry()), token: hold.token() };
        let answer = self.send(std::slice::from_ref(&lease)).await.pop();
        match answer.unwrap_or_else(|| Err(too_few(&*self.backend))) {
            Ok(renewal) => {
                self.log(self.apply(hold, renewal).1);
                Ok(())
            }
            Err(error) => {
                self.log(hold.mark_suspect());
                Err(error)
            }
        }
    }

    /// Who removes a record has to leave for it. So a record that was there may only be replaced.
    fn register(self: &Arc<Self>, id: EntryId, due: BootTime, tracked: Tracked, replaces: bool) -> bool {
        let mut registry = self.registry.lock();
        if !registry.accepts(id, replaces) {
            return false;
        }
        let old = registry.insert(id, due, tracked);
        let wake = registry.park_until(due);
        // What is never due needs no task.
        let start = due < BootTime::FAR_FUTURE && !std::mem::replace(&mut registry.started, true);
        drop(registry);
        let alarmed = old.as_ref().is_some_and(|old| old.alarmed);
        drop(old);
        if start {
            self.start();
        } else if wake {
            self.wake.notify_one();
        }
        if alarmed {
            // It came for the record before this one, and the lease is the same.
            self.renew_alarmed(vec![id]);
        }
        true
    }

    /// Starts the task of this client on the keeper. It ends when the client is dropped.
    fn start(self: &Arc<Self>) {
        let (renewals, wake, keeper) = (Arc::downgrade(self), Arc::clone(&self.wake), self.keeper.clone());
        // On the thread of a caller, whose lock is renewed whether or not there are alarms.
        let (mut alarms, panic) = match catch_unwind(AssertUnwindSafe(|| self.backend.alarms())) {
            Ok(alarms) => (alarms, None),
            Err(panic) => (no_alarms(), Some(panic)),
        };
        self.keeper.spawn(async move {
            loop {
                let served = Self::serve(&renewals, &wake, &keeper, alarms);
                let Err(panic) = AssertUnwindSafe(served).catch_unwind().await else { return };
                telemetry::keeper_panicked(&panic_text(panic));
                alarms = no_alarms();
            }
        });
        // From here on a log may block, and the leases are renewed all the same.
        let weak = Arc::downgrade(self);
        self.keeper.watch(weak);
        if let Some(panic) = panic {
            telemetry::keeper_panicked(&panic_text(panic));
        }
    }

    /// Does what is due, again and again.
    async fn serve(renewals: &Weak<Self>, wake: &Notify, keeper: &Keeper, alarms: Alarms) {
        // A stream that has ended gives no more alarms, which is not the end of this task.
        let mut alarms = alarms.chain(stream::pending()).ready_chunks(ALARMS_PER_TURN);
        while let Some(parked_until) = Self::upgrade(renewals, Self::run_due) {
            let pause = async {
                if parked_until <= keeper.now() {
                    // More was due than one turn does: other tasks have theirs in between.
                    tokio::task::yield_now().await;
                } else {
                    keeper.sleep_until(parked_until).await;
                }
            };
            tokio::select! {
                biased;
                Some(ids) = alarms.next() => {
                    Self::upgrade(renewals, |renewals| renewals.renew_alarmed(ids));
                }
                () = wake.notified() => {}
                () = pause => {}
            }
        }
    }

    fn upgrade<T>(renewals: &Weak<Self>, f: impl FnOnce(&Arc<Self>) -> T) -> Option<T> {
        renewals.upgrade().as_ref().map(f)
    }

    /// The store says that these leases may be lost: their renewals show whether they are. That of a waiter is renewed once it holds.
    fn renew_alarmed(self: &Arc<Self>, mut ids: Vec<EntryId>) {
        // The store may have said it twice.
        ids.sort_unstable();
        ids.dedup();
        let mut registry = self.registry.lock();
        let leases = ids.into_iter().filter_map(|id| registry.on_alarm(id)).collect();
        drop(registry);
        self.renew_all(leases);
    }

    /// Logs what a turn has done, when it has woken all that it had to wake: a log may block.
    fn log(&self, events: impl IntoIterator<Item = Event>) {
        events.into_iter().for_each(|event| self.event_log.note(event));
    }

    fn schedule(&self, leave: Leave, now: BootTime) -> ScheduledLeave {
        let Leave { entry, creates, ttl, doubtful } = leave;
        let scheduled = self.cleanup.schedule_leave(entry, creates, now + ttl);
        if doubtful { scheduled.doubtful() } else { scheduled }
    }

    /// Renews leases that have the same ttl. A try that takes too long makes them suspect and is followed by another, but
    /// its answer counts whenever it comes: the store may be slow all the time, and extend every lease.
    async fn renew_batch(self: Arc<Self>, batch: Vec<HeldLease>, turn: Option<OwnedSemaphorePermit>) {
        let Some(limit) = batch.iter().map(HeldLease::try_limit).min() else { return };
        let leases: Vec<Lease> = batch.iter().map(HeldLease::request).collect();
        let mut sent = pin!(self.send(&leases));
        let mut answers = self.keeper.timeout_at(self.keeper.now() + limit, sent.as_mut()).await;
        let late = answers.is_none();
        drop(turn);
        if late {
            let suspects: Vec<_> = batch.iter().filter_map(|lease| self.retry_later(lease)).collect();
            self.log(suspects);
            // No answer is worth anything after the lease.
            answers = self.keeper.timeout_at(self.keeper.now() + limit * 6, sent).await;
        }
        let (mut answers, mut events) = (answers.unwrap_or_default().into_iter(), Vec::new());
        for lease in &batch {
            match answers.next() {
                Some(Ok(renewal)) => {
                    let (extension, event) = self.apply(&lease.hold, lease.bounded(renewal));
                    events.extend(event);
                    if extension == Extension::Accepted {
                        self.reschedule(lease, lease.next_due(self.keeper.now()));
                    }
                }
                // The next try is on its way.
                _ if late => {}
                answer => {
                    if let Some(Err(error)) = answer {
                        let entry = Arc::clone(lease.hold.entry());
                        events.push(Event::StoreAway { entry, verb: "renew", error });
                    }
                    events.extend(self.retry_later(lease));
                }
            }
        }
        self.log(events);
    }

    /// Returns what to log.
    fn retry_later(&self, lease: &HeldLease) -> Option<Event> {
        let event = lease.hold.mark_suspect();
        self.reschedule(lease, self.keeper.now() + lease.retry_pause());
        event
    }

    async fn send(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        match catch_panic(self.backend.guarantees().store, self.backend.renew(leases)).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error)],
        }
    }

    /// Applies an answer, and returns what to log of it as well. A loss always schedules a leave: the store may still have the entry.
    fn apply(&self, hold: &Hold, renewal: Renewal) -> (Extension, Option<Event>) {
        let (extension, event) = match renewal {
            Renewal::Renewed { valid_until } => hold.extend(valid_until),
            Renewal::Lost => (Extension::TooLate, hold.mark_lost(LostReason::Gone)),
        };
        if extension == Extension::TooLate {
            let mut registry = self.registry.lock();
            // Who removes the record has to leave for it.
            let tracked = registry.remove(hold.entry_id());
            let scheduled = tracked.map(|tracked| self.schedule(tracked.leave(), self.keeper.now()));
            drop(registry);
            drop(scheduled);
        }
        (extension, event)
    }

    /// Sets when a lease that is still registered is due next: at its deadline at the latest.
    fn reschedule(&self, lease: &HeldLease, due: BootTime) {
        let id = lease.hold.entry_id();
        let due = due.min(lease.hold.deadline());
        let mut registry = self.registry.lock();
        if !registry.reschedule(id, due) {
            return;
        }
        let wake = registry.park_until(due);
        drop(registry);
        if wake {
            self.wake.notify_one();
        }
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        // The task wakes, and ends.
        self.wake.notify_one();
    }
}

/// The alarms of a backend that panics are not listened to any more.
fn no_alarms() -> Alarms {
    Box::pin(stream::pending())
}

fn too_few(backend: &dyn Backend) -> BackendError {
    BackendError::new(
        backend.guarantees().store,
        crate::BackendErrorKind::Protocol,
        "renew gave too few answers",
    )
}
