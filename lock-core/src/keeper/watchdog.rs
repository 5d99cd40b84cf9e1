//! [`Watchdog`]: sees to it that no loss goes untold, whatever has become of the keeper.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::Duration,
};

use crate::{BootTime, Clock};

/// A wait of the operating system does not count the sleep of the machine, so the clock is looked at at least this often
/// while any lock is held.
const SLICE: Duration = Duration::from_secs(1);

/// Whoever has locks that end at some time.
pub(crate) trait Ward: Send + Sync {
    /// Fires every lost signal whose deadline has passed, and says when the next one will have.
    fn look(&self) -> BootTime;
}

/// A small thread beside that of the keeper, for the one thing that must not depend on it: `lost()` fires at the deadline at the
/// latest. It renews nothing and asks no store, and does nothing at all until the keeper should have done it.
#[derive(Debug)]
pub(super) struct Watchdog {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    called: Condvar,
}

struct State {
    wards: Vec<Weak<dyn Ward>>,
    /// When it looks next if nobody calls it.
    look_at: BootTime,
    started: bool,
    over: bool,
}

impl Watchdog {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let state = State { wards: Vec::new(), look_at: BootTime::FAR_FUTURE, started: false, over: false };
        Self { clock, state: Mutex::new(state), called: Condvar::new() }
    }

    /// Looks after one more. The thread is started for the first.
    ///
    /// # Errors
    /// If the operating system cannot start one more thread. Then all depends on the keeper.
    pub(super) fn watch_over(self: &Arc<Self>, ward: Weak<dyn Ward>) -> io::Result<()> {
        let mut state = self.lock();
        state.wards.push(ward);
        let start = !std::mem::replace(&mut state.started, true);
        drop(state);
        if start {
            let watchdog = Arc::clone(self);
            thread::Builder::new().name("distlock-watchdog".into()).spawn(move || watchdog.watch())?;
        }
        Ok(())
    }

    /// Some lock will be over then, if nothing happens.
    pub(super) fn expect_by(&self, deadline: BootTime) {
        let mut state = self.lock();
        let call = deadline < state.look_at;
        if call {
            state.look_at = deadline;
        }
        drop(state);
        if call {
            self.called.notify_one();
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.lock().over = true;
        self.called.notify_one();
    }

    fn watch(&self) {
        while let Some(wards) = self.wards_to_look_at() {
            for ward in wards {
                let Some(ward) = ward.upgrade() else { continue };
                // Whatever goes wrong with one, the others are looked after.
                let next = catch_unwind(AssertUnwindSafe(|| ward.look()));
                let next = next.unwrap_or_else(|_| self.clock.now() + SLICE);
                let mut state = self.lock();
                state.look_at = state.look_at.min(next);
            }
        }
    }

    /// Waits until it is time to look. `None` when it is over.
    fn wards_to_look_at(&self) -> Option<Vec<Weak<dyn Ward>>> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            if state.look_at == BootTime::FAR_FUTURE {
                state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let left = state.look_at.since(self.clock.now());
            if left.is_zero() {
                break;
            }
            let waited = self.called.wait_timeout(state, left.min(SLICE));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        // Whoever calls from here on is not seen by this look.
        state.look_at = BootTime::FAR_FUTURE;
        state.wards.retain(|ward| ward.strong_count() > 0);
        Some(state.wards.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while the state is held, and each change to it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("look_at", &self.look_at).finish_non_exhaustive()
    }
}
