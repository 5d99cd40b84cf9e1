//! [`WaitState`]: what a waiter listens to.

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

/// What a waiter listens to: the server's own words about whoever is ahead.
///
/// Who is watched keeps the waiter out, or stands right ahead of that one: the lookahead. When it leaves, mostly because the one behind
/// it is admitted, it is time to ask once more who is left, while nobody waits for the answer. Then the delete of the last one ahead is
/// the grant, with nothing left to ask but whether the entry itself is still there.
///
/// ### To ensure correctness
/// See [`AheadCount`] for what is known of those ahead. The server tells of deletes in the order in which they happened: if the entry's
/// own node was deleted before, that is known when a later delete is, and nothing is granted (PR18). With its connection the watches end:
/// then it is for others to look. And what one transaction deletes is told one by one, so that the own node may be told of last: it is
/// asked for behind the event.
pub(crate) struct WaitState {
    member: Arc<Member>,
    keys: Keys,
    token: FencingToken,
    ahead_count: AheadCount,
    /// Those of this process, by their places in the count.
    local_members: Vec<Option<Arc<Member>>>,
    events: FuturesUnordered<BoxFuture<'static, (usize, EventType)>>,
    list: Option<BoxFuture<'static, Option<QueueView>>>,
    own_deleted: Option<DeletionWatch>,
    /// Whether the own node is there, asked when all those ahead had left.
    own_check: Option<BoxFuture<'static, bool>>,
    /// Tells of the end of the connection, since before anything was watched.
    states: StateWatcher,
    /// It has said what there was to say: now it is for others to look.
    finished: bool,
}

impl WaitState {
    /// What is watched has to be added.
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

    /// The next in the count: its watch, and who it is if it is one of ours.
    pub(crate) fn watch(&mut self, watcher: Watcher, other: Option<Arc<Member>>) {
        let which = self.local_members.len();
        self.local_members.push(other);
        self.events.push(watcher.changed().map(move |event| (which, event)).boxed());
    }

    /// Whether the entry's own node was deleted, as far as the server has told.
    fn is_deleted(&mut self, cx: &mut Context<'_>) -> bool {
        self.own_deleted.as_mut().is_some_and(|deleted| deleted.poll_unpin(cx).is_ready())
    }

    /// Whether the entry's own node is there, though all those ahead have left.
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

    /// Whether the connection is there on which the server has told all of this, in the order in which it happened.
    fn is_on_same_connection(&mut self) -> bool {
        self.states.changed().now_or_never().is_none()
    }

    /// A node that is watched was deleted.
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

    /// What the server has told up to now. An error is a reason to look again.
    fn listen(&mut self, cx: &mut Context<'_>) -> Result<(), ()> {
        loop {
            if let Poll::Ready(Some((which, event))) = self.events.poll_next_unpin(cx) {
                if event != EventType::NodeDeleted {
                    // Its data was changed, by whom ever, or nobody watches it any more.
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
            // Who waits polls.
            return Poll::Ready(None);
        }
        let heard = self.listen(cx);
        // After the events, so that whatever the server told before them is known.
        let deleted = self.is_deleted(cx);
        let hint = if deleted || heard.is_err() {
            Hint::Changed
        } else if self.ahead_count.admits() {
            let stands = ready!(self.poll_own_node(cx));
            // What was told before the answer is known by now.
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
            // To look at those who are watched would find that one is gone.
            self.member.set_snapshot(None);
        }
        self.finished = true;
        (self.own_deleted, self.list, self.own_check) = (None, None, None);
        Poll::Ready(Some(hint))
    }
}
