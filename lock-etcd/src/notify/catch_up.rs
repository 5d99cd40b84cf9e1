//! [`CatchUp`]: finds out what happened before a new stream began.

use super::{hub::WatchHub, wait_state::Presence};
use crate::{client::Client, queue};

/// The maximum number of keys in one transaction: etcd allows 128 operations.
const AT_ONCE: usize = 100;

/// A look at all entries that waiters watched on the stream before this one, once they are watched on this one.
///
/// This takes one transaction for each hundred entries. If each waiter looked at its queue instead, the work for etcd would grow with
/// the square of the number of waiters.
pub(super) struct CatchUp {
    keys: Vec<Vec<u8>>,
}

impl CatchUp {
    /// The keys in the order in which their watches were asked for.
    pub(super) fn new(keys: Vec<Vec<u8>>) -> Self {
        Self { keys }
    }

    /// Notifies each waiter of what has changed for it. A waiter for which that is unknown is told to look again.
    pub(super) async fn run(self, hub: &WatchHub, client: &Client) {
        hub.until_watched(&self.keys).await;
        let mut presence = Presence::with_capacity(self.keys.len());
        for keys in self.keys.chunks(AT_ONCE) {
            let asked = || queue::are_there(keys.iter().map(Vec::as_slice));
            let Ok(answer) = client.txn(asked).await.answer else { break };
            let Ok(revision) = queue::revision(&answer) else { break };
            let created = queue::present(&answer).into_iter().map(|created| (revision, created));
            presence.extend(keys.iter().cloned().zip(created));
        }
        hub.caught_up(&presence);
    }
}
