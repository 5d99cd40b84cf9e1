//! [`Hold`]: what is known about a granted lock, shared by its guard, its watchers and the keeper.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::{BootTime, Clock, Entry, EntryId, FencingToken, LockName, telemetry};

/// A view of a granted lock: everything that its [`Guard`](crate::Guard) tells, without keeping the lock.
///
/// Cheap to clone and to send to the tasks that work under the lock.
#[derive(Clone)]
pub struct Hold(Arc<Shared>);

struct Shared {
    entry: Arc<Entry>,
    token: FencingToken,
    /// The ttl that the store granted.
    ttl: Duration,
    clock: Arc<dyn Clock>,
    pid: u32,
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

/// What a guard knows about its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// The last renewal succeeded, and the deadline is ahead.
    Held,
    /// A renewal failed; the deadline is still ahead, and the lock is still held. The next renewal may mend it.
    Suspect,
    /// The lock is lost, for good.
    Lost(LostReason),
    /// The lock was released.
    Released,
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// Its deadline passed before the lease was proved alive again.
    Expired,
    /// The store says that the entry is gone: it expired there, or somebody removed it.
    Gone,
    /// It was held for `max_hold`.
    MaxHold,
    /// This process is a fork of the one that holds it.
    Forked,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease could not be renewed before its deadline",
            Self::Gone => "the store says that it is gone",
            Self::MaxHold => "it was held for max_hold",
            Self::Forked => "this process is a fork of the one that holds it",
        })
    }
}

/// What the store gave: the life of an entry, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) token: FencingToken,
    pub(crate) ttl: Duration,
    pub(crate) valid_until: BootTime,
}

/// What is to be told about a loss, once the state is let go: it runs code of others.
struct Loss {
    reason: LostReason,
    watchers: Vec<Waker>,
}

/// What a renewal brought: see [`Hold::prove`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    Accepted,
    /// It came after the deadline, or after the end of the hold: it proves nothing any more.
    TooLate,
}

impl Hold {
    pub(crate) fn new(
        entry: Arc<Entry>,
        grant: Grant,
        clock: Arc<dyn Clock>,
        max_hold: Option<Duration>,
    ) -> Self {
        let Grant { token, ttl, valid_until } = grant;
        let hold_until = max_hold.map_or(BootTime::FAR_FUTURE, |max_hold| clock.now() + max_hold);
        let deadline = valid_until.min(hold_until);
        let state = State { phase: Phase::Held, deadline, next_watcher: 0, watchers: Vec::new() };
        let pid = std::process::id();
        Self(Arc::new(Shared { entry, token, ttl, clock, pid, hold_until, state: Mutex::new(state) }))
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
    /// By the time that the caller acts on it, it may be too late: let the resource check the token.
    #[must_use]
    pub fn is_held(&self) -> bool {
        matches!(self.state(), HoldState::Held | HoldState::Suspect)
    }

    /// How long the lock may still be relied on if nothing more is heard from the store. Zero once it is lost or released.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.state() {
            HoldState::Held | HoldState::Suspect => self.lock().deadline.since(self.0.clock.now()),
            _ => Duration::ZERO,
        }
    }

    /// What is known about the lock at this moment.
    #[must_use]
    pub fn state(&self) -> HoldState {
        if self.0.pid != std::process::id() {
            return HoldState::Lost(LostReason::Forked);
        }
        let (state, loss) = self.judge(&mut self.lock());
        self.announce(loss);
        state
    }

    /// A future that is ready when the lock is lost, and never after a release. Cheap to clone, `'static`, and ready
    /// for late listeners too.
    pub fn lost(&self) -> Lost {
        Lost { hold: self.clone(), watcher: None }
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.0.entry
    }

    /// The ttl that the store granted.
    pub(crate) fn ttl(&self) -> Duration {
        self.0.ttl
    }

    /// How long a proof is good for: the shorter of what was asked for and what was granted.
    pub(crate) fn lease(&self) -> Duration {
        self.0.ttl.min(self.0.entry.ttl)
    }

    pub(crate) fn deadline(&self) -> BootTime {
        self.lock().deadline
    }

    /// Whether the deadline is the end of `max_hold`, so that no renewal can move it.
    pub(crate) fn is_at_max_hold(&self) -> bool {
        self.lock().deadline >= self.0.hold_until
    }

    /// Takes note of a proof that the lease is good until `valid_until`.
    pub(crate) fn prove(&self, valid_until: BootTime) -> Proof {
        let mut state = self.lock();
        let (judged, loss) = self.judge(&mut state);
        let held = matches!(judged, HoldState::Held | HoldState::Suspect);
        if held {
            state.phase = Phase::Held;
            state.deadline = state.deadline.max(valid_until.min(self.0.hold_until));
        }
        drop(state);
        self.announce(loss);
        if judged == HoldState::Suspect {
            telemetry::recovered(&self.0.entry, self.0.token);
        }
        if held { Proof::Accepted } else { Proof::TooLate }
    }

    /// Takes note of a renewal that failed.
    pub(crate) fn suspect(&self) {
        let mut state = self.lock();
        let held = matches!(state.phase, Phase::Held);
        if held {
            state.phase = Phase::Suspect;
        }
        let remaining = state.deadline.since(self.0.clock.now());
        drop(state);
        if held {
            telemetry::suspect(&self.0.entry, self.0.token, remaining);
        }
    }

    /// Takes note that the lock is lost. If its deadline has passed before that was known, then that is how.
    pub(crate) fn lose(&self, reason: LostReason) {
        let mut state = self.lock();
        let loss = self.judge(&mut state).1.or_else(|| Self::lose_locked(&mut state, reason));
        drop(state);
        self.announce(loss);
    }

    /// Ends the hold. True if it was held up to now, and by this call ended; false if it was lost or released before.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.lock();
        let (judged, loss) = self.judge(&mut state);
        let held = matches!(judged, HoldState::Held | HoldState::Suspect);
        let mut watchers = Vec::new();
        if held {
            state.phase = Phase::Released;
            watchers = std::mem::take(&mut state.watchers);
        }
        drop(state);
        self.announce(loss);
        drop(watchers);
        held
    }

    /// Looks at the clock.
    fn judge(&self, state: &mut State) -> (HoldState, Option<Loss>) {
        let mut loss = None;
        if matches!(state.phase, Phase::Held | Phase::Suspect) && self.0.clock.now() >= state.deadline {
            let at_max_hold = state.deadline >= self.0.hold_until;
            loss =
                Self::lose_locked(state, if at_max_hold { LostReason::MaxHold } else { LostReason::Expired });
        }
        let judged = match state.phase {
            Phase::Held => HoldState::Held,
            Phase::Suspect => HoldState::Suspect,
            Phase::Lost(reason) => HoldState::Lost(reason),
            Phase::Released => HoldState::Released,
        };
        (judged, loss)
    }

    fn lose_locked(state: &mut State, reason: LostReason) -> Option<Loss> {
        if !matches!(state.phase, Phase::Held | Phase::Suspect) {
            return None;
        }
        state.phase = Phase::Lost(reason);
        let watchers = std::mem::take(&mut state.watchers).into_iter().map(|(_, waker)| waker).collect();
        Some(Loss { reason, watchers })
    }

    fn announce(&self, loss: Option<Loss>) {
        if let Some(Loss { reason, watchers }) = loss {
            telemetry::lost(&self.0.entry, self.0.token, reason);
            watchers.into_iter().for_each(Waker::wake);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the state is held, and each change to it is whole.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("name", self.name())
            .field("token", &self.0.token)
            .field("entry", &self.0.entry.id)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

/// Ready when a lock is lost, with the reason: at its deadline at the latest, and earlier when the loss is noticed
/// earlier. Stays ready; never ready after a release. See [`Hold::lost`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Lost {
    hold: Hold,
    watcher: Option<u64>,
}

impl Future for Lost {
    type Output = LostReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostReason> {
        if let HoldState::Lost(reason) = self.hold.state() {
            return Poll::Ready(reason);
        }
        let hold = self.hold.clone();
        let mut state = hold.lock();
        let replaced = match state.phase {
            // It was lost between the two looks.
            Phase::Lost(reason) => return Poll::Ready(reason),
            Phase::Released => None,
            Phase::Held | Phase::Suspect => {
                let id = self.watcher.unwrap_or_else(|| {
                    state.next_watcher += 1;
                    state.next_watcher
                });
                self.watcher = Some(id);
                let waker = cx.waker().clone();
                if let Some((_, old)) = state.watchers.iter_mut().find(|(watcher, _)| *watcher == id) {
                    Some(std::mem::replace(old, waker))
                } else {
                    state.watchers.push((id, waker));
                    None
                }
            }
        };
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        self.hold.lost()
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        // In a fork the keeper, which is not there, may seem to hold the state for ever.
        if let Some(id) = self.watcher.filter(|_| self.hold.0.pid == std::process::id()) {
            let mut state = self.hold.lock();
            let found = state.watchers.iter().position(|(watcher, _)| *watcher == id);
            let watcher = found.map(|i| state.watchers.swap_remove(i));
            drop(state);
            drop(watcher);
        }
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").field("hold", &self.hold).finish_non_exhaustive()
    }
}
