//! [`Closing`]: whether a client is closed, and how tasks learn of it.

use std::{
    future::Future,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Whether a client takes no more locks.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    closed: AtomicBool,
    /// Notifies those that wait for a lock.
    begun: Notify,
    /// Notifies those that wait until nothing is left.
    gone: Notify,
}

impl Closing {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes, and notifies all that wait for a lock. It wakes tasks: nothing may be locked.
    pub(crate) fn begin(&self) {
        self.closed.store(true, Ordering::Release);
        self.begun.notify_waiters();
    }

    /// Ready when the client is closed after this call. Call it before [`is_closed`](Self::is_closed), or a close in between is missed.
    pub(crate) fn begun(&self) -> impl Future<Output = ()> + Send {
        self.begun.notified()
    }

    /// Notifies a close that something has gone. It wakes tasks: nothing may be locked.
    pub(crate) fn notify_gone(&self) {
        if self.is_closed() {
            self.gone.notify_waiters();
        }
    }

    /// Ready when something is gone after this call.
    pub(crate) fn gone(&self) -> impl Future<Output = ()> + Send {
        self.gone.notified()
    }
}
