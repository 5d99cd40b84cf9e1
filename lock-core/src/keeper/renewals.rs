//! [`Renewals`]: renews the leases of one client, and leaves for those that have ended.

mod watchdog_check;

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::{
    cleanup::{Cleanup, ScheduledLeave},
    handle::Keeper,
    held_lease::HeldLease,
    registry::{DueAction, Leave, Registry, Tracked},
    standstill::Standstill,
};
use crate::{
    Alarms, Backend, BackendError, BootTime, Creates, Entry, EntryId, Hold, Lease, LockName, LostReason,
    Renewal,
    closing::Closing,
    event_log::{Event, EventLog},
    hold::{Extension, Loss},
    panic_isolation::{catch_panic, panic_text},
    sync::Mutex,
    telemetry,
};

/// How many leases go into one request: few enough that its answer is not late for all of them.
const BATCH: usize = 256;

/// How many requests for leases of one ttl are under way at the same time: a request takes more memory than all else that is kept for
/// its leases.
const MAX_IN_FLIGHT: usize = 4;

/// How many are announced, and how many leave, before other tasks of the keeper have their turn: a loss wakes tasks, which is foreign
/// code, and a leave is logged, which takes longer.
const LOSSES_PER_TURN: usize = 512;
const LEAVES_PER_TURN: usize = 64;

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

    /// Registers a waiter whose lease is good until `valid_until`. False as with [`register_held`](Self::register_held).
    pub(crate) fn register_waiting(
        self: &Arc<Self>,
        entry: Arc<Entry>,
        creates: Creates,
        valid_until: BootTime,
        registered: bool,
    ) -> bool {
        self.register(entry.id, valid_until, Tracked::Waiting { entry, creates }, registered)
    }

    /// Removes a lease of which nothing is in the store.
    pub(crate) fn forget(&self, id: EntryId) {
        // Dropped only when the registry is unlocked: that may run foreign code.
        let tracked = self.registry.lock().remove(id);
        drop(tracked);
        self.closing.notify_gone();
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
        let scheduled: Vec<_> =
            registry.close().into_iter().map(|leave| self.schedule(leave, now).1).collect();
        drop(registry);
        drop(scheduled);
    }

    /// Whether no lease is registered.
    pub(crate) fn is_empty(&self) -> bool {
        self.registry.lock().is_empty()
    }

    /// The locks that are held now.
    pub(crate) fn held(&self) -> Vec<Hold> {
        let holds: Vec<_> = self.registry.lock().held_leases().map(|lease| lease.hold.clone()).collect();
        holds.into_iter().filter(Hold::is_held).collect()
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
                self.apply(hold, renewal);
                Ok(())
            }
            Err(error) => {
                hold.mark_suspect();
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
        drop(old);
        if start {
            self.start();
        } else if wake {
            self.wake.notify_one();
        }
        true
    }

    /// Starts the task of this client on the keeper. It ends when the client is dropped.
    fn start(self: &Arc<Self>) {
        let weak = Arc::downgrade(self);
        self.keeper.watch(weak);
        let (renewals, wake, keeper) = (Arc::downgrade(self), Arc::clone(&self.wake), self.keeper.clone());
        let mut alarms = self.backend.alarms();
        self.keeper.spawn(async move {
            loop {
                let served = Self::serve(&renewals, &wake, &keeper, alarms);
                let Err(panic) = AssertUnwindSafe(served).catch_unwind().await else { return };
                // The alarms of a backend that panics are not listened to any more.
                telemetry::keeper_panicked(&panic_text(&*panic));
                alarms = Box::pin(stream::pending());
            }
        });
    }

    /// Does what is due, again and again.
    async fn serve(renewals: &Weak<Self>, wake: &Notify, keeper: &Keeper, alarms: Alarms) {
        // A stream that has ended gives no more alarms, which is not the end of this task.
        let mut alarms = alarms.chain(stream::pending());
        while let Some(parked_until) = Self::upgrade(renewals, Self::run_due) {
            tokio::select! {
                biased;
                Some(id) = alarms.next() => { Self::upgrade(renewals, |renewals| renewals.renew_alarmed(id)); }
                () = wake.notified() => {}
                () = keeper.sleep_until(parked_until) => {}
            }
        }
    }

    fn upgrade<T>(renewals: &Weak<Self>, f: impl FnOnce(&Arc<Self>) -> T) -> Option<T> {
        renewals.upgrade().as_ref().map(f)
    }

    /// The store says that this lease may be lost: its renewal shows whether it is.
    fn renew_alarmed(self: &Arc<Self>, id: EntryId) {
        let Some(lease) = self.registry.lock().held_lease(id).cloned() else { return };
        let renewals = Arc::clone(self);
        self.keeper.spawn(async move { renewals.renew_batch(vec![lease], None).await });
    }

    /// Does what is due, and returns when something is due next.
    fn run_due(self: &Arc<Self>) -> BootTime {
        let now = self.keeper.now();
        let mut batches: BTreeMap<Duration, Vec<HeldLease>> = BTreeMap::new();
        let mut leaving = Vec::new();
        let mut registry = self.registry.lock();
        for id in registry.due_ids(now) {
            match registry.due_action(id, now) {
                Some(DueAction::Renew(lease)) => batches.entry(lease.hold.lease()).or_default().push(lease),
                // Scheduled before the registry is unlocked: a close must not find neither.
                Some(DueAction::Leave(leave)) => leaving.push(self.schedule(leave, now)),
                None => {}
            }
        }
        let parked_until = registry.first_due().map_or(BootTime::FAR_FUTURE, |(due, _)| due);
        registry.parked_until = parked_until;
        drop(registry);
        // One task for each batch: a slow store, or a class of long leases, never delays the others.
        for class in batches.into_values() {
            let turns = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
            for batch in class.chunks(BATCH) {
                let (renewals, batch, turns) = (Arc::clone(self), batch.to_vec(), Arc::clone(&turns));
                self.keeper.spawn(async move {
                    // The semaphore is never closed.
                    let turn = turns.acquire_owned().await.ok();
                    renewals.renew_batch(batch, turn).await;
                });
            }
        }
        self.announce_and_leave(leaving);
        parked_until
    }

    fn schedule(&self, leave: Leave, now: BootTime) -> (Option<Loss>, ScheduledLeave) {
        let Leave { entry, creates, ttl, loss } = leave;
        (loss, self.cleanup.schedule_leave(entry, creates, now + ttl))
    }

    /// Announces losses, and then starts the leaves, because what is logged of a leave takes time. Where they are many, other tasks have
    /// their turn in between.
    fn announce_and_leave(&self, leaving: Vec<(Option<Loss>, ScheduledLeave)>) {
        let (mut losses, mut scheduled): (Vec<_>, Vec<_>) = leaving.into_iter().unzip();
        announce(&mut losses);
        if losses.is_empty() && scheduled.len() <= LEAVES_PER_TURN {
            return drop(scheduled);
        }
        self.keeper.spawn(async move {
            while !losses.is_empty() {
                tokio::task::yield_now().await;
                announce(&mut losses);
            }
            while !scheduled.is_empty() {
                drop(scheduled.drain(..scheduled.len().min(LEAVES_PER_TURN)));
                tokio::task::yield_now().await;
            }
        });
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
            for lease in &batch {
                self.retry_later(lease);
            }
            // No answer is worth anything after the lease.
            answers = self.keeper.timeout_at(self.keeper.now() + limit * 6, sent).await;
        }
        let mut answers = answers.unwrap_or_default().into_iter();
        for lease in &batch {
            match answers.next() {
                Some(Ok(renewal)) => {
                    if self.apply(&lease.hold, renewal) == Extension::Accepted {
                        self.reschedule(lease, lease.next_due(self.keeper.now()));
                    }
                }
                // The next try is on its way.
                _ if late => {}
                answer => {
                    if let Some(Err(error)) = answer {
                        let entry = Arc::clone(lease.hold.entry());
                        self.event_log.note(Event::StoreAway { entry, verb: "renew", error });
                    }
                    self.retry_later(lease);
                }
            }
        }
    }

    fn retry_later(&self, lease: &HeldLease) {
        lease.hold.mark_suspect();
        self.reschedule(lease, self.keeper.now() + lease.retry_pause());
    }

    async fn send(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        match catch_panic(self.backend.guarantees().store, self.backend.renew(leases)).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error)],
        }
    }

    /// Applies an answer. A loss always schedules a leave: the store may still have the entry.
    fn apply(&self, hold: &Hold, renewal: Renewal) -> Extension {
        let extension = match renewal {
            Renewal::Renewed { valid_until } => hold.extend(valid_until),
            Renewal::Lost => {
                hold.mark_lost(LostReason::Gone);
                Extension::TooLate
            }
        };
        if extension == Extension::TooLate {
            let mut registry = self.registry.lock();
            // Who removes the record has to leave for it.
            let tracked = registry.remove(hold.entry_id());
            let scheduled = tracked.map(|tracked| self.schedule(tracked.leave(None), self.keeper.now()));
            drop(registry);
            drop(scheduled);
        }
        extension
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

/// Announces the first ones, and takes them out.
fn announce(losses: &mut Vec<Option<Loss>>) {
    losses.drain(..losses.len().min(LOSSES_PER_TURN)).flatten().for_each(Loss::announce);
}

fn too_few(backend: &dyn Backend) -> BackendError {
    BackendError::new(
        backend.guarantees().store,
        crate::BackendErrorKind::Protocol,
        "renew gave too few answers",
    )
}
