//! [`Watchdog`]: fires `lost()` at the deadline, even if the keeper is blocked or has ended.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use super::log_writer::LogWriter;
use crate::{
    BootTime, Clock,
    linger::ForeignCode,
    panic_isolation::discard,
    sync::{Condvar, Mutex},
};

/// A wait of the operating system does not count the time that the machine sleeps, so the clock is read at least this often while any
/// lock is held.
const SLICE: Duration = Duration::from_secs(1);

/// A client whose locks have deadlines.
pub(crate) trait Watched: Send + Sync {
    /// Fires every lost signal whose deadline has passed, and returns the next deadline. What it logs is written by `log_writer`.
    fn check(&self, log_writer: &Arc<LogWriter>) -> BootTime;
}

/// A small thread beside the keeper's thread, for the one task that must not depend on the keeper: `lost()` fires at the deadline at the
/// latest. It renews nothing, asks no store and writes no log, and does nothing at all until the keeper should have done it.
#[derive(Debug)]
pub(super) struct Watchdog {
    clock: Arc<dyn Clock>,
    log_writer: Arc<LogWriter>,
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    clients: Vec<Weak<dyn Watched>>,
    /// When the next check is due.
    check_at: BootTime,
    started: bool,
    stopped: bool,
}

impl Watchdog {
    pub(super) fn new(clock: Arc<dyn Clock>, log_writer: Arc<LogWriter>) -> Self {
        let state =
            State { clients: Vec::new(), check_at: BootTime::FAR_FUTURE, started: false, stopped: false };
        Self { clock, log_writer, state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Adds a client. The thread is started for the first one.
    ///
    /// # Errors
    /// If the operating system cannot start one more thread. Then only the keeper fires `lost()`.
    pub(super) fn watch(self: &Arc<Self>, client: Weak<dyn Watched>) -> io::Result<()> {
        let mut state = self.state.lock();
        state.clients.push(client);
        let start = !std::mem::replace(&mut state.started, true);
        drop(state);
        if start {
            let watchdog = Arc::clone(self);
            thread::Builder::new().name("distlock-watchdog".into()).spawn(move || watchdog.run())?;
        }
        Ok(())
    }

    /// A lock has this deadline, unless it is renewed.
    pub(super) fn expect_by(&self, deadline: BootTime) {
        let mut state = self.state.lock();
        let earlier = deadline < state.check_at;
        if earlier {
            state.check_at = deadline;
        }
        drop(state);
        if earlier {
            self.wake.notify_one();
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.wake.notify_one();
    }

    fn run(&self) {
        // It may be the last to drop a client, and must not write what that has counted to log.
        let _foreign = ForeignCode::begin();
        while let Some(clients) = self.clients_to_check() {
            for client in clients {
                let Some(client) = client.upgrade() else { continue };
                // Whatever goes wrong with one client, the others are checked.
                let next = catch_unwind(AssertUnwindSafe(|| client.check(&self.log_writer)));
                let next = next.unwrap_or_else(|panic| {
                    discard(panic);
                    self.clock.now() + SLICE
                });
                let mut state = self.state.lock();
                state.check_at = state.check_at.min(next);
            }
        }
    }

    /// Waits until a check is due. `None` when the watchdog is stopped.
    fn clients_to_check(&self) -> Option<Vec<Weak<dyn Watched>>> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            if state.check_at == BootTime::FAR_FUTURE {
                state = self.wake.wait(state);
                continue;
            }
            let left = state.check_at.since(self.clock.now());
            if left.is_zero() {
                break;
            }
            state = self.wake.wait_for(state, left.min(SLICE));
        }
        // A deadline that is announced from here on is not seen by this check.
        state.check_at = BootTime::FAR_FUTURE;
        state.clients.retain(|client| client.strong_count() > 0);
        Some(state.clients.clone())
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("check_at", &self.check_at).finish_non_exhaustive()
    }
}
