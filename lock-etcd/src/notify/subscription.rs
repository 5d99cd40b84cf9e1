//! [`Subscription`]: the events about the entries ahead of one waiter.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use lock_core::{EntryId, Hint, Hints};

use super::{hub::WatchHub, wait_state::GrantCondition};
use crate::queue::Snapshot;

/// An event about the entries ahead of a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitEvent {
    /// It is worth looking again.
    Changed,
    /// The entries ahead leave room.
    Admissible(GrantCondition),
}

/// The events for one waiter. When its last subscription is dropped, nothing is watched for the waiter any more.
pub(crate) struct Subscription {
    hints: Hints,
    entry: EntryId,
    hub: Arc<WatchHub>,
    /// The process that made this subscription.
    pid: u32,
}

impl Subscription {
    /// Watches the entries that a waiter has seen ahead, and its own.
    pub(crate) fn new(hub: &Arc<WatchHub>, entry: EntryId, snapshot: Snapshot) -> Self {
        Self::of(hub, entry, hub.listen(entry, snapshot))
    }

    /// One more subscription to the watches of a waiter, and their keys. `None` if the waiter has to look instead: an entry has left, or
    /// not everything is watched although it could be.
    pub(crate) fn again(hub: &Arc<WatchHub>, entry: EntryId) -> Option<(Self, Vec<Vec<u8>>)> {
        let (hints, keys) = hub.listen_again(entry)?;
        Some((Self::of(hub, entry, hints), keys))
    }

    /// The hub counts the subscription until it is dropped.
    fn of(hub: &Arc<WatchHub>, entry: EntryId, hints: Hints) -> Self {
        Self { hints, entry, hub: Arc::clone(hub), pid: std::process::id() }
    }
}

impl Stream for Subscription {
    type Item = WaitEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WaitEvent>> {
        let condition = match ready!(self.hints.as_mut().poll_next(cx)) {
            Some(Hint::Admitted { .. }) => self.hub.grant_condition(self.entry),
            Some(Hint::Changed) => None,
            None => return Poll::Ready(None),
        };
        Poll::Ready(Some(condition.map_or(WaitEvent::Changed, WaitEvent::Admissible)))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // In a forked child, the hub may stay locked forever by the keeper, which exists only in the parent.
        if self.pid == std::process::id() {
            self.hub.release(self.entry);
        }
    }
}
