//! [`WaitState`]: what a waiter knows, and the events that it listens to.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, ready, stream::FuturesUnordered};
use lock_core::{FencingToken, Hint};
use zookeeper_client::{EventType, StateWatcher};

use crate::{
    client::Watcher,
    keys::{Keys, entry_node::token},
    queue::{AheadCount, QueueView},
    session::{DeletionWatch, Member, read_queue},
};

/// What a waiter knows, and the events about watched entries that it listens to.
///
/// It watches the blockers, which keep it out, and the lookahead, right ahead of them. When the lookahead leaves, usually because the
/// entry behind it is admitted, the waiter lists the queue once more, before the answer is urgent. Then the delete of the last entry
/// ahead is the grant, and the waiter only has to ask whether its own node still exists.
///
/// ### To ensure correctness
/// See [`AheadCount`] for what is known about the entries ahead. The server sends events in the order of the deletes. If the waiter's own
/// node was deleted first, its event arrives first, and nothing is granted (PR18). The watches end with their connection; then the
/// waiter looks again. The deletes of one transaction are sent one by one, so the event of the own node may come last: that node is
/// looked up after the event that grants.
pub(crate) struct WaitState {
    member: Arc<Member>,
    keys: Keys,
    token: FencingToken,
    ahead_count: AheadCount,
    /// By place in the count: the member, if the entry is one of this process.
    local_members: Vec<Option<Arc<Member>>>,
    events: FuturesUnordered<BoxFuture<'static, (usize, EventType)>>,
    list: Option<BoxFuture<'static, Option<QueueView>>>,
    own_deleted: Option<DeletionWatch>,
    /// Asks whether the own node exists, after all entries ahead have left.
    own_check: Option<BoxFuture<'static, bool>>,
    /// Reports the end of the connection. Created before anything was watched.
    states: StateWatcher,
    /// Whether the last hint was given. After that, the waiter looks.
    finished: bool,
}

impl WaitState {
    /// Watches nothing yet: see [`watch`](Self::watch).
    pub(crate) fn new(
        member: Arc<Member>,
        keys: Keys,
        token: FencingToken,
        ahead_count: AheadCount,
        own_deleted: DeletionWatch,
        states: StateWatcher,
    ) -> Self {
        let (events, local_members) = (FuturesUnordered::new(), Vec::new());
        let (list, own_check) = (None, None);
        let (own_deleted, finished) = (Some(own_deleted), false);
        Self {
            member,
            keys,
            token,
            ahead_count,
            local_members,
            events,
            list,
            own_deleted,
            own_check,
            states,
            finished,
        }
    }

    /// Adds the watch of the next entry in the count, and its member if it is one of this process.
    pub(crate) fn watch(&mut self, watcher: Watcher, other: Option<Arc<Member>>) {
        let which = self.local_members.len();
        self.local_members.push(other);
        self.events.push(watcher.changed().map(move |event| (which, event)).boxed());
    }

    /// Whether the own node was deleted, according to the events so far.
    fn is_deleted(&mut self, cx: &mut Context<'_>) -> bool {
        self.own_deleted.as_mut().is_some_and(|deleted| deleted.poll_unpin(cx).is_ready())
    }

    /// Asks whether the own node exists, after all entries ahead have left.
    fn poll_own_node(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let (member, created) = (&self.member, self.token);
        let check = self.own_check.get_or_insert_with(|| {
            let member = Arc::clone(member);
            let look = async move {
                let (Some(own_node), Ok(client)) = (member.own_node(), member.session.client()) else {
                    return false;
                };
                let path = member.sibling_path(&own_node.name);
                let seen = member.session.answer("a look", client.check_stat(&path)).await;
                seen.is_ok_and(|stat| stat.is_some_and(|stat| token(stat.czxid) == created))
            };
            look.boxed()
        });
        check.poll_unpin(cx)
    }

    /// Whether all events came on the connection that is still open, and so in the order of the changes.
    fn is_on_same_connection(&mut self) -> bool {
        self.states.changed().now_or_never().is_none()
    }

    /// Records that a watched node was deleted.
    fn mark_left(&mut self, which: usize) {
        let node = self.ahead_count.watched_nodes().nth(which).unwrap_or_default();
        let was_first = self.local_members[which].as_ref().is_some_and(|other| other.was_first_at(node));
        self.ahead_count.mark_left(which, was_first);
        if self.list.is_none() && !self.ahead_count.admits() && self.ahead_count.is_uncertain() {
            let (member, keys) = (Arc::clone(&self.member), self.keys.clone());
            self.list =
                Some(async move { read_queue(&keys, &member.session, &member.lock).await.ok() }.boxed());
        }
    }

    /// Handles all events so far. An error is a reason to look again.
    fn listen(&mut self, cx: &mut Context<'_>) -> Result<(), ()> {
        loop {
            if let Poll::Ready(Some((which, event))) = self.events.poll_next_unpin(cx) {
                if event != EventType::NodeDeleted {
                    // The node's data was changed, or the watch ended.
                    return Err(());
                }
                self.mark_left(which);
            } else if let Some(Poll::Ready(queue)) = self.list.as_mut().map(|list| list.poll_unpin(cx)) {
                self.list = None;
                let queue = queue.ok_or(())?;
                let entry = &self.member.entry;
                self.ahead_count.recount(&queue.ahead_of(entry.id, entry.claim).ok_or(())?);
            } else {
                return Ok(());
            }
        }
    }
}

impl Stream for WaitState {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Hint>> {
        if self.finished {
            // A waiter keeps polling.
            return Poll::Ready(None);
        }
        let heard = self.listen(cx);
        // After the events, so that everything that the server sent before this is known.
        let deleted = self.is_deleted(cx);
        let hint = if deleted || heard.is_err() {
            Hint::Changed
        } else if self.ahead_count.admits() {
            let stands = ready!(self.poll_own_node(cx));
            // What the server sent before this answer is known by now.
            if stands && !self.is_deleted(cx) && self.is_on_same_connection() {
                self.member.mark_admitted();
                Hint::Admitted { token: self.token }
            } else {
                Hint::Changed
            }
        } else if !self.ahead_count.is_blocked() && self.list.is_none() {
            Hint::Changed
        } else {
            return Poll::Pending;
        };
        if !self.ahead_count.is_complete() {
            // One of the watched entries has left, so the snapshot cannot be used any more.
            self.member.set_snapshot(None);
        }
        self.finished = true;
        (self.own_deleted, self.list, self.own_check) = (None, None, None);
        Poll::Ready(Some(hint))
    }
}
