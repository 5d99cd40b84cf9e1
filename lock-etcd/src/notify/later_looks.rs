//! [`LaterLooks`]: looks that do not disturb a hand-off.

use std::time::Duration;

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::StreamExt;
use lock_core::{BootTime, EntryId, Keeper};

use super::hub::WatchHub;

/// Longer than a member takes to read one key, and shorter than several hand-offs.
const DELAY: Duration = Duration::from_millis(1);

/// Waiters that are told to look a moment after the delete that is the reason for it.
///
/// The delete that hands a lock on is also the departure of somebody's lookahead. So the next holder would read its own key while a
/// waiter further behind looks at the whole queue, which takes etcd the longer the more stand there. The hand-off waits for the read,
/// and nobody for the look: that waiter has several entries ahead. So the look comes a moment later. The moment is counted from the
/// delete, of which all processes hear at about the same time: so it helps where the next holder waits in another process, too.
///
/// A waiter whose turn comes within the moment is told so by the delete of the entry right ahead of it. If the stream breaks, the next
/// one makes up for it (PR14).
pub(super) struct LaterLooks(UnboundedReceiver<(BootTime, EntryId)>);

/// Where such waiters are handed in.
pub(super) struct LookLater {
    keeper: Keeper,
    due: UnboundedSender<(BootTime, EntryId)>,
}

/// Both ends.
pub(super) fn later_looks(keeper: &Keeper) -> (LookLater, LaterLooks) {
    let (due, looks) = unbounded();
    (LookLater { keeper: keeper.clone(), due }, LaterLooks(looks))
}

impl LookLater {
    pub(super) fn add(&self, waiters: Vec<EntryId>) {
        for waiter in waiters {
            // The other end lasts as long as the stream.
            let _ = self.due.unbounded_send((self.keeper.now() + DELAY, waiter));
        }
    }
}

impl LaterLooks {
    /// Tells them, as long as the other end is there.
    pub(super) async fn run(mut self, hub: &WatchHub, keeper: &Keeper) {
        // The first one is the first to be due: the delay is the same for all.
        while let Some((due, waiter)) = self.0.next().await {
            keeper.sleep_until(due).await;
            hub.tell_to_look(waiter);
        }
    }
}
