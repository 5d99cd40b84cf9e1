//! [`Vigil`]: what a waiter listens to.

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
    line::Line,
    link::Watcher,
    nodes::Nodes,
    session::{Gone, Member, read_queue, token},
    tally::Tally,
};

/// What a waiter listens to: the server's own words about whoever is ahead.
///
/// Who is watched keeps the waiter out, or stands right ahead of that one: the herald. When it leaves, mostly because the one behind
/// it is admitted, it is time to ask once more who is left, while nobody waits for the answer. Then the delete of the last one ahead is
/// the grant, with nothing left to ask but whether the entry itself is still there.
///
/// ### To ensure correctness
/// See [`Tally`] for what is known of those ahead. The server tells of deletes in the order in which they happened: if the entry's
/// own node was deleted before, that is known when a later delete is, and nothing is granted (PR18). With its connection the watches end:
/// then it is for others to look. And what one transaction deletes is told one by one, so that the own node may be told of last: it is
/// asked for behind the event.
pub(crate) struct Vigil {
    member: Arc<Member>,
    nodes: Nodes,
    token: FencingToken,
    tally: Tally,
    /// By their places in the tally. Those whom we know ourselves.
    others: Vec<Option<Arc<Member>>>,
    events: FuturesUnordered<BoxFuture<'static, (usize, EventType)>>,
    list: Option<BoxFuture<'static, Option<Line>>>,
    own: Option<Gone>,
    /// Whether the own node is there, asked when all those ahead had left.
    check: Option<BoxFuture<'static, bool>>,
    /// Tells of the end of the connection, since before anything was watched.
    states: StateWatcher,
    /// It has said what there was to say: now it is for others to look.
    told: bool,
}

impl Vigil {
    /// What is watched has to be added.
    pub(crate) fn new(
        member: Arc<Member>,
        nodes: Nodes,
        token: FencingToken,
        tally: Tally,
        own: Gone,
        states: StateWatcher,
    ) -> Self {
        let (events, others) = (FuturesUnordered::new(), Vec::new());
        let (list, check) = (None, None);
        Self { member, nodes, token, tally, others, events, list, own: Some(own), check, states, told: false }
    }

    /// The next in the tally: its watch, and who it is if it is one of ours.
    pub(crate) fn watch(&mut self, watcher: Watcher, other: Option<Arc<Member>>) {
        let which = self.others.len();
        self.others.push(other);
        self.events.push(watcher.changed().map(move |event| (which, event)).boxed());
    }

    /// Whether the entry's own node was deleted, as far as the server has told.
    fn is_gone(&mut self, cx: &mut Context<'_>) -> bool {
        self.own.as_mut().is_some_and(|own| own.poll_unpin(cx).is_ready())
    }

    /// Whether the entry's own node is there, though all those ahead have left.
    fn stands(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let (member, minted) = (&self.member, self.token);
        let check = self.check.get_or_insert_with(|| {
            let member = Arc::clone(member);
            let look = async move {
                let (Some(place), Ok(client)) = (member.place(), member.session.client()) else {
                    return false;
                };
                let path = member.beside(&place.node);
                let seen = member.session.answer("a look", client.check_stat(&path)).await;
                seen.is_ok_and(|stat| stat.is_some_and(|stat| token(stat.czxid) == minted))
            };
            look.boxed()
        });
        check.poll_unpin(cx)
    }

    /// Whether the connection is there on which the server has told all of this, in the order in which it happened.
    fn is_in_order(&mut self) -> bool {
        self.states.changed().now_or_never().is_none()
    }

    /// A node that is watched was deleted.
    fn left(&mut self, which: usize) {
        let node = self.tally.nodes().nth(which).unwrap_or_default();
        let alone = self.others[which].as_ref().is_some_and(|other| other.was_alone_at(node));
        self.tally.left(which, alone);
        if self.list.is_none() && !self.tally.admits() && self.tally.is_vague() {
            let (member, nodes) = (Arc::clone(&self.member), self.nodes.clone());
            self.list =
                Some(async move { read_queue(&nodes, &member.session, &member.lock).await.ok() }.boxed());
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
                self.left(which);
            } else if let Some(Poll::Ready(line)) = self.list.as_mut().map(|list| list.poll_unpin(cx)) {
                self.list = None;
                let line = line.ok_or(())?;
                let entry = &self.member.entry;
                self.tally.recount(&line.ahead_of(entry.id, entry.claim).ok_or(())?);
            } else {
                return Ok(());
            }
        }
    }
}

impl Stream for Vigil {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Hint>> {
        if self.told {
            // Who waits polls.
            return Poll::Ready(None);
        }
        let heard = self.listen(cx);
        // After the events, so that whatever the server told before them is known.
        let gone = self.is_gone(cx);
        let hint = if gone || heard.is_err() {
            Hint::Changed
        } else if self.tally.admits() {
            let stands = ready!(self.stands(cx));
            // What was told before the answer is known by now.
            if stands && !self.is_gone(cx) && self.is_in_order() {
                self.member.is_admitted();
                Hint::Admitted { token: self.token }
            } else {
                Hint::Changed
            }
        } else if !self.tally.is_blocked() && self.list.is_none() {
            Hint::Changed
        } else {
            return Poll::Pending;
        };
        if !self.tally.is_whole() {
            // To look at those who are watched would find that one is gone.
            self.member.sees(None);
        }
        self.told = true;
        (self.own, self.list, self.check) = (None, None, None);
        Poll::Ready(Some(hint))
    }
}
