//! [`WorkerWaker`]: wakes the worker if it sleeps for longer than the next waiter may wait for a look.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Wakes the worker.
type Call = Box<dyn Fn() + Send + Sync>;

/// Used when an entry begins to wait, or gets a message. Clones share the worker.
#[derive(Clone, Default)]
pub(crate) struct WorkerWaker(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// How often `wake` was called.
    wakes: AtomicU64,
    /// Whether the worker sleeps for long, and was not woken since.
    is_sleeping: AtomicBool,
    call: OnceLock<Call>,
}

impl WorkerWaker {
    /// Sets the function that wakes the worker. Only the first call counts.
    pub(crate) fn set_wake(&self, call: Call) {
        let _ = self.0.call.set(call);
    }

    /// Wakes the worker if it sleeps for long. Otherwise only counts the call: there may be many waiters that change often.
    pub(crate) fn wake(&self) {
        self.0.wakes.fetch_add(1, Ordering::SeqCst);
        if self.0.is_sleeping.swap(false, Ordering::SeqCst)
            && let Some(call) = self.0.call.get()
        {
            call();
        }
    }

    /// Called by the worker before it goes to sleep, which may be for long. Returns how often `wake` was called: each call is either
    /// counted here, or sees that the worker sleeps.
    pub(crate) fn prepare_sleep(&self, for_long: bool) -> u64 {
        self.0.is_sleeping.store(for_long, Ordering::SeqCst);
        self.0.wakes.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for WorkerWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerWaker").field("wakes", &self.0.wakes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each call is a task for the worker, and while it has one, callers must go to it.
    #[test]
    fn only_a_thread_that_sleeps_for_long_is_called_and_only_once() {
        let (waker, calls) = (WorkerWaker::default(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&calls);
        waker.set_wake(Box::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        }));
        let called = || calls.load(Ordering::SeqCst);
        waker.wake();
        assert_eq!((waker.prepare_sleep(false), called()), (1, 0), "it is awake");
        waker.wake();
        assert_eq!((waker.prepare_sleep(true), called()), (2, 0));
        waker.wake();
        waker.wake();
        assert_eq!((waker.prepare_sleep(true), called()), (4, 1));
        waker.wake();
        assert_eq!((waker.prepare_sleep(false), called()), (5, 2), "it went to sleep again");
    }
}
