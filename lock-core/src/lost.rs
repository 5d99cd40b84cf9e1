//! [`Lost`]: the signal that a lock is lost.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::{Hold, HoldState, LostReason};

/// A future that is ready when a lock is lost, with the reason: at its deadline at the latest, and earlier when the loss is noticed
/// earlier. It stays ready, and is never ready after a release. See [`Hold::lost`].
///
/// Clones and late listeners see the same loss: each may be polled from another task. Dropping it ends nothing but the watch.
#[must_use = "a future does nothing unless it is polled"]
pub struct Lost {
    hold: Hold,
    watcher: Option<u64>,
}

impl Hold {
    /// A future that is ready when the lock is lost, and never after a release. Cheap to clone, `'static`, and ready for late listeners
    /// too.
    ///
    /// It is ready at the deadline even if the store and the keeper do not answer, and before another client can be admitted. After that a
    /// new holder may be at work, so stop what writes immediately. It needs no runtime, but the task that awaits it has to be polled: work that
    /// never awaits asks [`is_held`](Self::is_held) instead.
    pub fn lost(&self) -> Lost {
        Lost { hold: self.clone(), watcher: None }
    }
}

impl Future for Lost {
    type Output = LostReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostReason> {
        if let HoldState::Lost(reason) = self.hold.state() {
            return Poll::Ready(reason);
        }
        match self.hold.watch(self.watcher, cx.waker()) {
            Ok(watcher) => {
                self.watcher = watcher;
                Poll::Pending
            }
            // It was lost between the two looks.
            Err(reason) => Poll::Ready(reason),
        }
    }
}

impl Clone for Lost {
    fn clone(&self) -> Self {
        self.hold.lost()
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher {
            self.hold.unwatch(watcher);
        }
    }
}

impl fmt::Debug for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lost").field("hold", &self.hold).finish_non_exhaustive()
    }
}
