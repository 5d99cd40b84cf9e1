//! [`Closing`]: the end of a client, and who has to hear of it.

use std::{
    future::Future,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Whether a client takes no more locks.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    closed: AtomicBool,
    /// For those who wait for a lock.
    begun: Notify,
    /// For those who wait until nothing is left.
    gone: Notify,
}

impl Closing {
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Tells all who wait for a lock. It wakes tasks: nothing may be locked.
    pub(crate) fn begin(&self) {
        self.closed.store(true, Ordering::Release);
        self.begun.notify_waiters();
    }

    /// Ready when the client is closed after this call. Whoever looks whether it is closed calls this before.
    pub(crate) fn begun(&self) -> impl Future<Output = ()> + Send {
        self.begun.notified()
    }

    /// Something is gone that a close may wait for. Nothing may be locked.
    pub(crate) fn is_gone(&self) {
        if self.is_closed() {
            self.gone.notify_waiters();
        }
    }

    /// Ready when something is gone after this call.
    pub(crate) fn gone(&self) -> impl Future<Output = ()> + Send {
        self.gone.notified()
    }
}
