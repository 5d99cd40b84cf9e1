//! [`Hold`]: what is known about a granted lock, shared by its guard, its watchers and the keeper.

use std::{fmt, sync::Arc, task::Waker, time::Duration};

use crate::{
    BootTime, Clock, Entry, EntryId, FencingToken, HoldState, LockName, LostReason,
    event_log::{Event, EventLog},
    panic_isolation,
    sync::Mutex,
    telemetry,
};

/// A view of a granted lock: everything that its [`Guard`](crate::Guard) tells, without keeping the lock.
///
/// Cheap to clone and to send. Give one to each task that works under the lock, so that the task can watch for the loss; the guard stays
/// where the work as a whole begins and ends. A hold outlives its guard, and then tells that the lock was released.
///
/// ```
/// use lock_core::{DistributedLock, HoldState, Locks, Memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let guard = Locks::new(Memory::new()).mutex("import")?.acquire().await?;
/// let hold = guard.hold();
/// let worker = tokio::spawn(async move {
///     tokio::select! {
///         reason = hold.lost() => Err(reason),
///         rows = async { 3 } => Ok(rows),
///     }
/// });
/// let hold = guard.hold();
/// assert_eq!(worker.await?, Ok(3));
/// guard.release().await?;
/// assert_eq!(hold.state(), HoldState::Released);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Hold(Arc<Shared>);

struct Shared {
    entry: Arc<Entry>,
    token: FencingToken,
    /// The ttl that the store granted.
    ttl: Duration,
    clock: Arc<dyn Clock>,
    event_log: Arc<EventLog>,
    /// The process that connected.
    pid: u32,
    granted: BootTime,
    /// The end of `max_hold`.
    hold_until: BootTime,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    /// Until when the lock may be relied on, if nothing more is heard.
    deadline: BootTime,
    next_watcher: u64,
    watchers: Vec<(u64, Waker)>,
}

#[derive(Clone, Copy)]
enum Phase {
    Held,
    Suspect,
    Lost(LostReason),
    Released,
}

/// What the store granted: a life of the entry, and its ttl.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) token: FencingToken,
    pub(crate) ttl: Duration,
    pub(crate) valid_until: BootTime,
}

/// A loss whose watchers still have to be woken. That runs foreign code, so the caller does it when nothing is locked.
#[must_use = "the watchers have to be woken"]
pub(crate) struct Loss {
    hold: Hold,
    reason: LostReason,
    held: Duration,
    watchers: Vec<Waker>,
}

impl Loss {
    /// Wakes the watchers, and returns what to log. A log may block, so the caller logs when it has woken everybody else too.
    #[must_use]
    pub(crate) fn wake(self) -> Event {
        let Self { hold, reason, held, watchers } = self;
        watchers.into_iter().for_each(panic_isolation::wake);
        Event::Lost { entry: Arc::clone(hold.entry()), token: hold.token(), reason, held }
    }
}

/// Whether [`Hold::extend`] moved the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    Accepted,
    /// It came after the deadline, or after the end of the hold, and proves nothing any more.
    TooLate,
}

impl Hold {
    pub(crate) fn new(
        entry: Arc<Entry>,
        grant: Grant,
        clock: Arc<dyn Clock>,
        max_hold: Option<Duration>,
        event_log: Arc<EventLog>,
    ) -> Self {
        let Grant { token, ttl, valid_until } = grant;
        let granted = clock.now();
        let hold_until = max_hold.map_or(BootTime::FAR_FUTURE, |max_hold| granted + max_hold);
        let deadline = valid_until.min(hold_until);
        let state = State { phase: Phase::Held, deadline, next_watcher: 0, watchers: Vec::new() };
        // A fork that goes on polling its parent's future is granted what is its parent's.
        let pid = event_log.pid();
        let state = Mutex::new(state);
        Self(Arc::new(Shared { entry, token, ttl, clock, event_log, pid, granted, hold_until, state }))
    }

    /// The name of the lock.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.0.entry.name
    }

    /// The fencing token, fixed at the grant. Still there when the lock is lost.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.0.token
    }

    /// The entry that holds the lock, as `queue` shows it.
    #[must_use]
    pub fn entry_id(&self) -> EntryId {
        self.0.entry.id
    }

    /// Whether the lock is held at this moment: compares the clock with the deadline now, so the answer is right even if
    /// no task or thread ran since.
    ///
    /// The answer may be out of date when the caller acts on it, as after a pause of the process: let the resource check the
    /// [token](Self::token) where that must do no harm.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state().is_held()
    }

    /// How long the lock may still be relied on if nothing more is heard from the store. Zero once it is lost or released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_held() { self.deadline().since(self.0.clock.now()) } else { Duration::ZERO }
    }

    /// What is known about the lock at this moment.
    #[must_use]
    pub fn state(&self) -> HoldState {
        if self.0.pid != std::process::id() {
            return HoldState::Lost(LostReason::Forked);
        }
        let (state, loss) = self.look();
        self.announce(loss);
        state
    }

    /// What is known at this moment. The caller wakes the watchers of a loss, once nothing is locked.
    pub(crate) fn look(&self) -> (HoldState, Option<Loss>) {
        self.check_deadline(&mut self.0.state.lock())
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.0.entry
    }

    /// The ttl that the store granted.
    pub(crate) fn ttl(&self) -> Duration {
        self.0.ttl
    }

    /// For how long a renewal is good: the shorter of the ttl that was asked for and the one that was granted.
    pub(crate) fn lease(&self) -> Duration {
        self.0.ttl.min(self.0.entry.ttl)
    }

    pub(crate) fn deadline(&self) -> BootTime {
        self.0.state.lock().deadline
    }

    /// Whether the deadline is the end of `max_hold`, so that no renewal can move it.
    pub(crate) fn is_at_max_hold(&self) -> bool {
        self.0.state.lock().deadline >= self.0.hold_until
    }

    /// Whether it has ended, as far as that was noticed: the clock is not read.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.0.state.lock().phase, Phase::Lost(_) | Phase::Released)
    }

    /// The store has proved the lease good until `valid_until`. Returns what to log as well.
    pub(crate) fn extend(&self, valid_until: BootTime) -> (Extension, Option<Event>) {
        let mut state = self.0.state.lock();
        let (state_now, loss) = self.check_deadline(&mut state);
        let held = state_now.is_held();
        if held {
            state.phase = Phase::Held;
            state.deadline = state.deadline.max(valid_until.min(self.0.hold_until));
        }
        drop(state);
        if held {
            let recovered = || Event::Recovered { entry: Arc::clone(&self.0.entry), token: self.0.token };
            return (Extension::Accepted, (state_now == HoldState::Suspect).then(recovered));
        }
        (Extension::TooLate, loss.map(Loss::wake))
    }

    /// A renewal has failed. Returns what to log.
    pub(crate) fn mark_suspect(&self) -> Option<Event> {
        let mut state = self.0.state.lock();
        let held = matches!(state.phase, Phase::Held);
        if held {
            state.phase = Phase::Suspect;
        }
        let remaining = state.deadline.since(self.0.clock.now());
        drop(state);
        let suspect = || Event::Suspect { entry: Arc::clone(&self.0.entry), token: self.0.token, remaining };
        held.then(suspect)
    }

    /// The lock is lost for this reason, unless its deadline passed before that was known: then that is the reason. Returns what to log.
    pub(crate) fn mark_lost(&self, reason: LostReason) -> Option<Event> {
        let mut state = self.0.state.lock();
        let loss = self.check_deadline(&mut state).1.or_else(|| self.mark_lost_locked(&mut state, reason));
        drop(state);
        loss.map(Loss::wake)
    }

    /// Ends the hold, and returns for how long it was held. `None` if it was lost or released before. The caller traces how it ended, which
    /// the store may know.
    pub(crate) fn end(&self) -> Option<Duration> {
        let mut state = self.0.state.lock();
        let (state_now, loss) = self.check_deadline(&mut state);
        let held = state_now.is_held();
        let mut watchers = Vec::new();
        if held {
            state.phase = Phase::Released;
            watchers = std::mem::take(&mut state.watchers);
        }
        drop(state);
        self.announce(loss);
        drop(watchers);
        held.then(|| self.0.clock.now().since(self.0.granted))
    }

    /// Traces the end of a hold of this length.
    pub(crate) fn trace_released(&self, held: Duration) {
        telemetry::released(&self.0.entry, self.0.token, held);
    }

    /// Logs that the store did not have the entry any more when it was to leave.
    pub(crate) fn trace_gone(&self, held: Duration) {
        let (entry, token) = (Arc::clone(&self.0.entry), self.0.token);
        self.0.event_log.note(Event::Lost { entry, token, reason: LostReason::Gone, held });
    }

    /// Has `waker` woken when the lock is lost, and returns the key of the watcher. One that has a key already gets this waker instead
    /// of its last one. `Err` if the lock is lost.
    pub(crate) fn watch(&self, key: Option<u64>, waker: &Waker) -> Result<Option<u64>, LostReason> {
        // Foreign code, like everything that is done with a waker.
        let waker = waker.clone();
        let mut state = self.0.state.lock();
        match state.phase {
            Phase::Lost(reason) => return Err(reason),
            Phase::Released => return Ok(key),
            Phase::Held | Phase::Suspect => {}
        }
        let key = key.unwrap_or_else(|| {
            state.next_watcher += 1;
            state.next_watcher
        });
        let replaced = if let Some((_, old)) = state.watchers.iter_mut().find(|(watcher, _)| *watcher == key)
        {
            Some(std::mem::replace(old, waker))
        } else {
            state.watchers.push((key, waker));
            None
        };
        drop(state);
        drop(replaced);
        Ok(Some(key))
    }

    /// Ends a watch.
    pub(crate) fn unwatch(&self, key: u64) {
        // In a fork the state may stay locked forever by the keeper, which does not exist there.
        if self.0.pid == std::process::id() {
            let mut state = self.0.state.lock();
            let found = state.watchers.iter().position(|(watcher, _)| *watcher == key);
            let watcher = found.map(|i| state.watchers.swap_remove(i));
            drop(state);
            drop(watcher);
        }
    }

    /// Wakes the watchers, and logs the loss.
    fn announce(&self, loss: Option<Loss>) {
        if let Some(loss) = loss {
            self.0.event_log.note(loss.wake());
        }
    }

    /// Looks at the clock.
    fn check_deadline(&self, state: &mut State) -> (HoldState, Option<Loss>) {
        let mut loss = None;
        if matches!(state.phase, Phase::Held | Phase::Suspect) && self.0.clock.now() >= state.deadline {
            let at_max_hold = state.deadline >= self.0.hold_until;
            loss = self
                .mark_lost_locked(state, if at_max_hold { LostReason::MaxHold } else { LostReason::Expired });
        }
        let state_now = match state.phase {
            Phase::Held => HoldState::Held,
            Phase::Suspect => HoldState::Suspect,
            Phase::Lost(reason) => HoldState::Lost(reason),
            Phase::Released => HoldState::Released,
        };
        (state_now, loss)
    }

    fn mark_lost_locked(&self, state: &mut State, reason: LostReason) -> Option<Loss> {
        if !matches!(state.phase, Phase::Held | Phase::Suspect) {
            return None;
        }
        state.phase = Phase::Lost(reason);
        let held = self.0.clock.now().min(state.deadline).since(self.0.granted);
        let watchers = std::mem::take(&mut state.watchers).into_iter().map(|(_, waker)| waker).collect();
        Some(Loss { hold: self.clone(), reason, held, watchers })
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("name", self.name())
            .field("token", &self.0.token)
            .field("entry", &self.0.entry.id)
            .field("state", &self.state())
            .field("remaining", &self.remaining())
            .finish()
    }
}
