//! [`WorkerWaker`]: calls the thread that looks after those who wait, when it has gone to sleep for longer than one that is the next can wait.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Wakes the thread.
type Call = Box<dyn Fn() + Send + Sync>;

/// Rung when somebody here begins to wait, or is told something. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct WorkerWaker(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// How often it was rung.
    wakes: AtomicU64,
    /// Whether the thread sleeps for long, and was not called since it began to.
    is_sleeping: AtomicBool,
    call: OnceLock<Call>,
}

impl WorkerWaker {
    /// How to call the thread, from now on. Said once.
    pub(crate) fn set_wake(&self, call: Call) {
        let _ = self.0.call.set(call);
    }

    /// Wakes the thread if it sleeps for long. Nothing but a count else: those who wait may be many, and change often.
    pub(crate) fn wake(&self) {
        self.0.wakes.fetch_add(1, Ordering::SeqCst);
        if self.0.is_sleeping.swap(false, Ordering::SeqCst)
            && let Some(call) = self.0.call.get()
        {
            call();
        }
    }

    /// Called by the thread before it goes to sleep, which may be for long. Gives how often it was rung: who rings is either seen
    /// here, or sees that the thread sleeps.
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

    /// Each call is a job for the thread, and while it has one, callers go to it.
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
