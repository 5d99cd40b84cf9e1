//! [`LaterLooks`]: delays looks that would slow down a hand-off.

use std::time::Duration;

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use lock_core::{BootTime, EntryId, Keeper};

use super::hub::WatchHub;

/// Longer than a member takes to read one key, and shorter than several hand-offs take.
const DELAY: Duration = Duration::from_millis(1);

/// Waiters that are told to look a moment after the delete that makes the look necessary.
///
/// The delete that hands a lock to the next waiter may also be that of the lookahead of a waiter further behind. Then the next holder would
/// read its own key while that waiter looks at the whole queue, which takes etcd longer the longer the queue is. The hand-off needs the
/// read. The look is not urgent, because its waiter has several entries ahead. So the look is delayed a moment. The moment is counted
/// from the delete, which reaches all processes at about the same time, so it also helps if the next holder waits in another process.
///
/// A waiter that becomes the next holder in that moment learns it from the delete of the entry right ahead of it. If the stream breaks, the
/// next stream makes up for the look (PR14).
pub(super) struct LaterLooks(UnboundedReceiver<(BootTime, EntryId)>);

/// The end that adds such waiters.
pub(super) struct LookLater {
    keeper: Keeper,
    due: UnboundedSender<(BootTime, EntryId)>,
}

/// Makes both ends.
pub(super) fn later_looks(keeper: &Keeper) -> (LookLater, LaterLooks) {
    let (due, looks) = unbounded();
    (LookLater { keeper: keeper.clone(), due }, LaterLooks(looks))
}

impl LookLater {
    pub(super) fn add(&self, waiters: Vec<EntryId>) {
        for waiter in waiters {
            // The other end exists as long as the stream.
            let _ = self.due.unbounded_send((self.keeper.now() + DELAY, waiter));
        }
    }
}

impl LaterLooks {
    /// Tells the waiters to look, until the other end is dropped.
    pub(super) async fn run(mut self, hub: &WatchHub, keeper: &Keeper) {
        // The first one is due first, because the delay is the same for all.
        while let Some((due, waiter)) = self.0.next().await {
            keeper.sleep_until(due).await;
            hub.tell_to_look(waiter);
        }
    }
}
