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
        token: FencingToken,
        clock: Arc<dyn Clock>,
        valid_until: BootTime,
        max_hold: Option<Duration>,
    ) -> Self {
        let hold_until = max_hold.map_or(BootTime::FAR_FUTURE, |max_hold| clock.now() + max_hold);
        let deadline = valid_until.min(hold_until);
        let state = State { phase: Phase::Held, deadline, next_watcher: 0, watchers: Vec::new() };
        let pid = std::process::id();
        Self(Arc::new(Shared { entry, token, clock, pid, hold_until, state: Mutex::new(state) }))
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
        let (state, watchers) = self.judge(&mut self.lock());
        watchers.into_iter().for_each(Waker::wake);
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
        let (judged, watchers) = self.judge(&mut state);
        let held = matches!(judged, HoldState::Held | HoldState::Suspect);
        if held {
            state.phase = Phase::Held;
            state.deadline = state.deadline.max(valid_until.min(self.0.hold_until));
        }
        drop(state);
        watchers.into_iter().for_each(Waker::wake);
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

    /// The store says that the entry is gone.
    pub(crate) fn lose(&self, reason: LostReason) {
        let watchers = self.lose_locked(&mut self.lock(), reason);
        watchers.into_iter().for_each(Waker::wake);
    }

    /// Ends the hold. True if it was held up to now, and by this call ended; false if it was lost or released before.
    pub(crate) fn end(&self) -> bool {
        let mut state = self.lock();
        let (judged, lost) = self.judge(&mut state);
        let held = matches!(judged, HoldState::Held | HoldState::Suspect);
        let mut watchers = Vec::new();
        if held {
            state.phase = Phase::Released;
            watchers = std::mem::take(&mut state.watchers);
        }
        drop(state);
        lost.into_iter().for_each(Waker::wake);
        drop(watchers);
        held
    }

    /// Looks at the clock. Wakers are called and dropped only after the state is let go: they run code of others.
    fn judge(&self, state: &mut State) -> (HoldState, Vec<Waker>) {
        let mut watchers = Vec::new();
        if matches!(state.phase, Phase::Held | Phase::Suspect) && self.0.clock.now() >= state.deadline {
            let at_max_hold = state.deadline >= self.0.hold_until;
            let reason = if at_max_hold { LostReason::MaxHold } else { LostReason::Expired };
            watchers = self.lose_locked(state, reason);
        }
        let judged = match state.phase {
            Phase::Held => HoldState::Held,
            Phase::Suspect => HoldState::Suspect,
            Phase::Lost(reason) => HoldState::Lost(reason),
            Phase::Released => HoldState::Released,
        };
        (judged, watchers)
    }

    /// The watchers to wake once the state is let go.
    fn lose_locked(&self, state: &mut State, reason: LostReason) -> Vec<Waker> {
        if !matches!(state.phase, Phase::Held | Phase::Suspect) {
            return Vec::new();
        }
        state.phase = Phase::Lost(reason);
        telemetry::lost(&self.0.entry, self.0.token, reason);
        std::mem::take(&mut state.watchers).into_iter().map(|(_, waker)| waker).collect()
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
        if let Some(id) = self.watcher {
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
