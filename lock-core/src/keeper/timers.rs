//! Timers on a [`Clock`] that counts suspend, awaited from any executor.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{BootTime, Clock, panic_isolation, sync::Mutex};

/// The runtime's timers stand still while the machine sleeps, so the clock is read at least this often.
const SLICE: Duration = Duration::from_secs(1);

/// How many are woken before the keeper's tasks have their turn: each may run foreign code.
const AT_A_TIME: usize = 64;

pub(crate) struct Timers {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    wake: Notify,
    pid: u32,
}

struct State {
    queue: BTreeMap<(BootTime, u64), Waker>,
    next_key: u64,
    /// When the keeper will look next without being woken.
    parked_until: BootTime,
}

impl Timers {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let state = State { queue: BTreeMap::new(), next_key: 0, parked_until: BootTime::FAR_FUTURE };
        Self { clock, state: Mutex::new(state), wake: Notify::new(), pid: std::process::id() }
    }

    /// Fires timers forever. One task of the keeper.
    pub(crate) async fn drive(&self) {
        loop {
            match self.fire_due() {
                None => self.wake.notified().await,
                Some(Duration::ZERO) => tokio::task::yield_now().await,
                Some(slice) => tokio::select! {
                    biased;
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep(slice) => {}
                },
            }
        }
    }

    /// Wakes what is due, a few at a time, and returns how long to park: `None` until the next registration.
    fn fire_due(&self) -> Option<Duration> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let mut due = Vec::new();
        while due.len() < AT_A_TIME
            && let Some(first) = state.queue.first_entry().filter(|first| first.key().0 <= now)
        {
            due.push(first.remove());
        }
        let slice = state.queue.first_key_value().map(|((until, _), _)| until.since(now).min(SLICE));
        state.parked_until = slice.map_or(BootTime::FAR_FUTURE, |slice| now + slice);
        drop(state);
        due.into_iter().for_each(panic_isolation::wake);
        slice
    }

    fn register(&self, until: BootTime, key: Option<u64>, waker: &Waker) -> u64 {
        // Foreign code, like everything that is done with a waker.
        let waker = waker.clone();
        let mut state = self.state.lock();
        let key = key.unwrap_or_else(|| {
            state.next_key += 1;
            state.next_key
        });
        let replaced = state.queue.insert((until, key), waker);
        let wake = until < state.parked_until;
        if wake {
            // The keeper is notified once; a later timer need not do it again.
            state.parked_until = until;
        }
        drop(state);
        // Only now, unlocked: to drop a waker may drop a task, and with it other timers.
        drop(replaced);
        if wake {
            self.wake.notify_one();
        }
        key
    }
}

/// Ready at an instant of the keeper's clock. See [`Keeper::sleep_until`](super::Keeper::sleep_until).
#[must_use = "a future does nothing unless it is polled"]
pub struct Sleep {
    timers: Arc<Timers>,
    until: BootTime,
    key: Option<u64>,
}

impl Sleep {
    pub(super) fn new(timers: Arc<Timers>, until: BootTime) -> Self {
        Self { timers, until, key: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.timers.clock.now() >= self.until {
            return Poll::Ready(());
        }
        let key = self.timers.register(self.until, self.key, cx.waker());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        // In a fork the timers may stay locked forever by the keeper, which does not exist there.
        if let Some(key) = self.key.filter(|_| self.timers.pid == std::process::id()) {
            let waker = self.timers.state.lock().queue.remove(&(self.until, key));
            drop(waker);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("until", &self.until).finish_non_exhaustive()
    }
}
