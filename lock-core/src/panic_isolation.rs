//! Wakers and log subscribers are foreign code: a panic of theirs must not end the thread or the task that calls them.

use std::{
    any::Any,
    future::{Future, poll_fn},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Wake, Waker},
};

use futures_util::FutureExt;

use crate::{BackendError, BackendErrorKind, linger::ForeignCode};

/// Runs foreign code, and drops its panic, which the panic hook has reported.
///
/// A subscriber of the log is foreign code, too, and runs wherever a line is written: it must not end the task of a connection, and with it
/// the requests of others. So a backend writes each line in this, but for those of a [`LogThrottle`](crate::LogThrottle), which does it
/// by itself.
///
/// ```
/// # let server = "127.0.0.1:6379";
/// lock_core::isolate(|| tracing::debug!(server, "connection opened"));
/// ```
///
/// ### To ensure correctness
/// Nothing may be locked meanwhile that the code could lock again.
pub fn isolate(code: impl FnOnce()) {
    let _foreign = ForeignCode::begin();
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        discard(panic);
    }
}

/// Turns a panic of a backend into an error, which means *unknown* like any other.
pub(crate) async fn catch_panic<T>(
    store: &'static str,
    verb: impl Future<Output = T> + Send,
) -> Result<T, BackendError> {
    AssertUnwindSafe(verb).catch_unwind().await.map_err(|panic| {
        let text = panic_text(panic);
        BackendError::new(store, BackendErrorKind::Panicked, format!("panicked: {text}"))
    })
}

/// The message of a panic, whose value is dropped.
pub(crate) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    discard(panic);
    text
}

/// Drops the value that a panic was thrown with, which is foreign code, too. If that panics, the value of the second panic is leaked: it
/// may panic again when it is dropped.
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    let _foreign = ForeignCode::begin();
    mem::forget(catch_unwind(AssertUnwindSafe(|| drop(panic))));
}

/// Wakes a foreign task.
pub(crate) fn wake(waker: Waker) {
    isolate(|| waker.wake());
}

/// Polls a future that asks a store, with a [`Shield`] in place of the caller's waker. What answers it, a task of the keeper or a shared
/// connection, goes on when that waker panics.
pub(crate) fn shielded<F: Future + Send>(mut future: Pin<&mut F>) -> impl Future<Output = F::Output> + Send {
    let mut shield: Option<(Arc<Shield>, Waker)> = None;
    poll_fn(move |cx| {
        if shield.as_ref().is_none_or(|(shield, _)| !shield.is_before(cx.waker())) {
            let made = Arc::new(Shield(Some(cx.waker().clone())));
            let waker = Waker::from(Arc::clone(&made));
            shield = Some((made, waker));
        }
        let waker = shield.as_ref().map_or(cx.waker(), |(_, waker)| waker);
        future.as_mut().poll(&mut Context::from_waker(waker))
    })
}

/// A waker that calls a foreign one, and drops its panics.
struct Shield(Option<Waker>);

impl Shield {
    fn is_before(&self, waker: &Waker) -> bool {
        self.0.as_ref().is_some_and(|theirs| theirs.will_wake(waker))
    }
}

impl Wake for Shield {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Only the drop takes it.
        if let Some(waker) = &self.0 {
            isolate(|| waker.wake_by_ref());
        }
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        // That may drop a foreign task, and all that is in it.
        let waker = self.0.take();
        isolate(|| drop(waker));
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::resume_unwind,
        pin::pin,
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        task::Poll,
    };

    use super::*;
    use crate::linger::may_block;

    /// Panics whenever it is woken, and when it goes.
    #[derive(Default)]
    struct Panics(AtomicUsize);

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("as a waker does whose queue is closed");
        }
    }

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("as a task does whose future panics");
        }
    }

    /// The value of a panic, which panics with another one when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            resume_unwind(Box::new(Self));
        }
    }

    #[test]
    fn the_waker_of_a_caller_does_no_harm_to_what_answers_it() {
        let heard = Mutex::new(Vec::new());
        let panics = Arc::new(Panics::default());
        {
            let mut asked = pin!(poll_fn(|cx| {
                heard.lock().unwrap().push(cx.waker().clone());
                Poll::<()>::Pending
            }));
            let mut shielded = pin!(shielded(asked.as_mut()));
            let waker = Waker::from(Arc::clone(&panics));
            for _ in 0..2 {
                assert!(shielded.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
            mem::forget(waker);
        }
        let heard = heard.into_inner().unwrap();
        assert!(heard[0].will_wake(&heard[1]), "one shield is made for one waker");
        heard[0].wake_by_ref();
        heard.into_iter().for_each(Waker::wake);
        assert_eq!(panics.0.load(Ordering::Relaxed), 3);
        mem::forget(panics);
    }

    #[test]
    fn a_panic_whose_value_panics_when_it_is_dropped_ends_there() {
        isolate(|| resume_unwind(Box::new(Bomb)));
        assert_eq!(panic_text(Box::new(Bomb)), "");
    }

    #[test]
    fn a_thread_that_calls_foreign_code_may_not_block() {
        let mut inside = true;
        isolate(|| inside = may_block());
        assert!(!inside && may_block());
    }

    #[test]
    fn a_task_that_panics_in_its_drop_does_no_harm_to_who_has_its_waker() {
        let shield = Waker::from(Arc::new(Shield(Some(Waker::from(Arc::new(Panics::default()))))));
        drop(shield);
    }
}
