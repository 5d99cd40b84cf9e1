//! [`Lost`]: the signal that a lock is lost.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::{Hold, HoldState, LostReason, Phase};

/// Ready when a lock is lost, with the reason: at its deadline at the latest, and earlier when the loss is noticed
/// earlier. Stays ready; never ready after a release. See [`Hold::lost`].
#[must_use = "a future does nothing unless it is polled"]
pub struct Lost {
    hold: Hold,
    watcher: Option<u64>,
}

impl Lost {
    pub(super) fn new(hold: Hold) -> Self {
        Self { hold, watcher: None }
    }
}

impl Future for Lost {
    type Output = LostReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LostReason> {
        if let HoldState::Lost(reason) = self.hold.state() {
            return Poll::Ready(reason);
        }
        let hold = self.hold.clone();
        // Code of others, as all that is done with a waker.
        let waker = cx.waker().clone();
        let mut state = hold.lock();
        let replaced = match state.phase {
            // It was lost between the two looks.
            Phase::Lost(reason) => return Poll::Ready(reason),
            Phase::Released => Some(waker),
            Phase::Held | Phase::Suspect => {
                let id = self.watcher.unwrap_or_else(|| {
                    state.next_watcher += 1;
                    state.next_watcher
                });
                self.watcher = Some(id);
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
        // In a fork the keeper, which is not there, may seem to hold the state for ever.
        if let Some(id) = self.watcher.filter(|_| self.hold.0.pid == std::process::id()) {
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
