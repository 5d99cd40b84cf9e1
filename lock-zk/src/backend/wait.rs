//! Waiting for the entries ahead.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{OptionFuture, join, join_all},
};
use lock_core::{BackendError, BootTime, Holder, Standing};
use zookeeper_client::{Stat, StateWatcher};

use super::zookeeper::ZooKeeper;
use crate::{
    client::{ReconnectingClient, Watcher},
    error::{Cause, Failure},
    keys::entry_node::{read_data, token},
    notify::WaitState,
    queue::Snapshot,
    session::{DeletionWatch, Member, OwnNode},
};

/// A waiter looks again at least this often, because events of watches have been lost (H75).
const LOOK_AGAIN: Duration = Duration::from_secs(5);

type WatchAnswer = Result<(Vec<u8>, Stat, Watcher), Failure>;

/// The watches of a waiter: on its own node and on those ahead.
struct Watches {
    own_deletion: DeletionWatch,
    /// One watch for each watched entry.
    answers: Vec<WatchAnswer>,
    /// The holder of the lock, if it was requested.
    holder: Option<Holder>,
}

impl ZooKeeper {
    /// Watches the blockers, the lookahead and the entry's own node (PR15, PR18). `None` if one of them has left since the snapshot, so
    /// that a new one is needed.
    pub(crate) async fn wait_behind(
        &self,
        member: &Arc<Member>,
        own_node: &OwnNode,
        mut snapshot: Snapshot,
        sent: BootTime,
    ) -> Result<Option<Standing>, BackendError> {
        let session = &member.session;
        loop {
            // Nothing can be watched before there is a connection. The snapshot stays valid in the meantime.
            let client = session.answer("a look", session.client()?.ready()).await?;
            // Before anything is watched.
            let states = client.states();
            let Some(watches) = self.watch(member, own_node, &snapshot, &client).await? else {
                return Ok(Some(Standing::Gone));
            };
            let Some(wait_state) = self.wait_state(member, own_node, &mut snapshot, watches, states)? else {
                return Ok(None);
            };
            if !member.refresh(sent) || !session.is_alive(self.keeper.now()) {
                return Ok(Some(Standing::Gone));
            }
            if session.is_using(&client) {
                return Ok(Some(self.waiting(member, own_node, snapshot, wait_state, sent)));
            }
            // The connection was replaced in the meantime. The events of two connections have no common order, so watch again on the new one.
        }
    }

    /// The state to listen with from now on. `None` if one of the watched entries has left.
    fn wait_state(
        &self,
        member: &Arc<Member>,
        own_node: &OwnNode,
        snapshot: &mut Snapshot,
        watches: Watches,
        states: StateWatcher,
    ) -> Result<Option<WaitState>, BackendError> {
        let shown = snapshot.position_of_first().unwrap_or_default();
        let mut known_holder = watches.holder.or_else(|| snapshot.holder().cloned());
        let (keys, ahead_count) = (self.sessions.keys().clone(), snapshot.ahead_count().clone());
        let mut wait_state = WaitState::new(
            Arc::clone(member),
            keys,
            own_node.token,
            ahead_count,
            watches.own_deletion,
            states,
        );
        for (i, (entry, look)) in snapshot.watched().iter().zip(watches.answers).enumerate() {
            match look {
                Ok((data, _, changed)) => {
                    if i == shown && known_holder.is_none() {
                        known_holder = holder(&data);
                    }
                    wait_state.watch(changed, self.sessions.find(*entry));
                }
                Err(failure) if failure.cause() == Cause::NoNode => return Ok(None),
                Err(failure) => return Err(failure.into()),
            }
        }
        snapshot.set_holder(known_holder);
        Ok(Some(wait_state))
    }

    fn waiting(
        &self,
        member: &Member,
        own_node: &OwnNode,
        mut snapshot: Snapshot,
        wait_state: WaitState,
        sent: BootTime,
    ) -> Standing {
        let (ahead, first) = (snapshot.entries_ahead(), snapshot.holder().cloned());
        snapshot.mark_old();
        member.set_snapshot(Some(snapshot));
        Standing::Waiting {
            token: own_node.token,
            ttl: member.session.granted(),
            valid_until: member.session.valid_until(sent, member.entry.ttl),
            ahead,
            holder: Some(first.unwrap_or(Holder::Foreign { expires: true })),
            look_again: self.keeper.now() + (member.entry.ttl / 3).min(LOOK_AGAIN),
            hints: Box::pin(wait_state),
        }
    }

    /// Sets all watches in one round trip. `None` if the entry's own node does not exist.
    async fn watch(
        &self,
        member: &Arc<Member>,
        own_node: &OwnNode,
        snapshot: &Snapshot,
        client: &Arc<ReconnectingClient>,
    ) -> Result<Option<Watches>, BackendError> {
        let session = &member.session;
        let watch = |node: &str| {
            let (path, client) = (member.sibling_path(node), Arc::clone(client));
            async move { session.answer("a watch", client.get_and_watch_data(&path)).await }
        };
        let looks = join_all(snapshot.ahead_count().watched_nodes().map(watch));
        let known = member.deletion_watch();
        let own = OptionFuture::from(known.is_none().then(|| watch(&own_node.name)));
        // A node that is already watched is only looked at, and not even that if the queue was just read.
        let there = OptionFuture::from((known.is_some() && !snapshot.is_fresh()).then(|| {
            let (path, client) = (member.sibling_path(&own_node.name), Arc::clone(client));
            async move { session.answer("a look", client.check_stat(&path)).await }
        }));
        // The first entry holds the lock. Usually it is watched already.
        let asks = snapshot.position_of_first().is_none() && snapshot.holder().is_none();
        let first = OptionFuture::from(asks.then(|| {
            let (path, client) = (member.sibling_path(snapshot.first()), Arc::clone(client));
            async move { session.answer("a look", client.get_data(&path)).await }
        }));
        let ((own, there), (looks, first)) = join(join(own, there), join(looks, first)).await;
        let Some(own_deletion) = self.own_deletion_watch(member, known, own)? else { return Ok(None) };
        if let Some(there) = there.transpose()?
            && there.is_none_or(|stat| token(stat.czxid) != own_node.token)
        {
            self.sessions.mark_gone(member);
            return Ok(None);
        }
        let holder = first.and_then(Result::ok).and_then(|(data, _)| holder(&data));
        Ok(Some(Watches { own_deletion, answers: looks, holder }))
    }

    /// The watch on an entry's own node: an earlier one, or the one that was just set. `None` if the node does not exist.
    fn own_deletion_watch(
        &self,
        member: &Arc<Member>,
        known: Option<DeletionWatch>,
        answer: Option<WatchAnswer>,
    ) -> Result<Option<DeletionWatch>, BackendError> {
        let watcher = match answer {
            // If the watch has fired in the meantime, the waiter looks again.
            None => return Ok(known),
            Some(Ok((_, _, watcher))) => watcher,
            Some(Err(failure)) if failure.cause() == Cause::NoNode => {
                self.sessions.mark_gone(member);
                return Ok(None);
            }
            Some(Err(failure)) => return Err(failure.into()),
        };
        Ok(Some(member.set_deletion_watch(watcher.changed().map(drop))))
    }
}

/// Reads the holder from the data of its node. `None` if other clients wrote the data.
fn holder(data: &[u8]) -> Option<Holder> {
    read_data(data).map(|(_, label)| Holder::Ours { label })
}
