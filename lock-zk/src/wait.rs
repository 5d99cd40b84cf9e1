//! Waiting for those ahead.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, OptionFuture, join, join_all},
    stream::FuturesUnordered,
};
use lock_core::{BackendError, BootTime, Claim, FencingToken, Hint, Holder, Standing, admission::fits};
use zookeeper_client::{EventType, OneshotWatcher, Stat};

use crate::{
    ZooKeeper,
    enter::read_data,
    error::{Cause, Failure},
    line::Ahead,
    session::{Gone, Member, Place},
};

/// A waiter looks again at least this often: watches have been lost (H75).
const LOOK_AGAIN: Duration = Duration::from_secs(5);

type Watched = Result<(Vec<u8>, Stat, OneshotWatcher), Failure>;

impl ZooKeeper {
    /// Watches whoever keeps a place out, and its own node (PR15, PR18). `None` if they have left in between, so that it has to
    /// be looked at again.
    pub(crate) async fn wait_behind(
        &self,
        member: &Arc<Member>,
        place: &Place,
        ahead: &Ahead<'_>,
        sent: BootTime,
    ) -> Result<Option<Standing>, BackendError> {
        let session = &member.session;
        let client = session.client()?;
        let watch = |node: &str| {
            let (path, client) = (member.beside(node), Arc::clone(&client));
            async move { session.answer("a watch", client.get_and_watch_data(&path)).await }
        };
        let blockers = ahead.blockers();
        let looks = join_all(blockers.iter().map(|row| watch(&row.node)));
        let own = OptionFuture::from(member.gone().is_none().then(|| watch(&place.node)));
        // Whoever is first holds the lock. Mostly it is the one that is watched anyway.
        let first = ahead.rows().first().filter(|first| blockers.iter().all(|row| row.node != first.node));
        let first = OptionFuture::from(first.map(|row| {
            let path = member.beside(&row.node);
            let client = Arc::clone(&client);
            async move { session.answer("a look", client.get_data(&path)).await }
        }));
        let (own, (looks, first)) = join(own, join(looks, first)).await;
        let Some(own) = self.own_node(member, own)? else { return Ok(Some(Standing::Gone)) };

        let mut vigil = Vigil::new(own, place.token, ahead, member.entry.claim);
        let mut holder = first.and_then(Result::ok).and_then(|(data, _)| read_data(&data)?.1.into());
        for (i, (row, answer)) in blockers.iter().zip(looks).enumerate() {
            match answer {
                Ok((data, _, watcher)) => {
                    if i == 0 && holder.is_none() {
                        holder = read_data(&data).map(|(_, label)| label);
                    }
                    vigil.watch(ahead.weight(row), watcher);
                }
                Err(failure) if failure.cause() == Cause::NoNode => return Ok(None),
                Err(failure) => return Err(failure.into()),
            }
        }
        if !member.refresh(sent) || !session.is_alive(self.keeper.now()) {
            return Ok(Some(Standing::Gone));
        }
        Ok(Some(Standing::Waiting {
            token: place.token,
            ttl: session.granted(),
            valid_until: session.valid_until(sent, member.entry.ttl),
            ahead: ahead.rows().len() as u64,
            holder: Some(holder.map_or(Holder::Foreign { expires: true }, |label| Holder::Ours { label })),
            look_again: self.keeper.now() + (member.entry.ttl / 3).min(LOOK_AGAIN),
            hints: Box::pin(vigil),
        }))
    }

    /// The watch on an entry's own node, which was there before or was just made. `None` if the node is not there.
    fn own_node(&self, member: &Arc<Member>, answer: Option<Watched>) -> Result<Option<Gone>, BackendError> {
        let watcher = match answer {
            None => return Ok(member.gone()),
            Some(Ok((_, _, watcher))) => watcher,
            Some(Err(failure)) if failure.cause() == Cause::NoNode => {
                self.sessions.is_gone(member);
                return Ok(None);
            }
            Some(Err(failure)) => return Err(failure.into()),
        };
        Ok(Some(member.watches(watcher.changed().map(drop))))
    }
}

/// What a waiter listens to: the server's own words about whoever is ahead.
///
/// ### To ensure correctness
/// The look saw *all* who were ahead, and what was deleted since is subtracted: so a delete by which the sum fits is the grant
/// (PR16). The server tells of deletes in the order in which they happened: if the entry's own node was deleted before, that is known
/// when a later delete is, and nothing is granted (PR18).
struct Vigil {
    token: FencingToken,
    claim: Claim,
    /// What is left of those ahead.
    ahead: u64,
    /// What is left of those that are watched.
    watched: u64,
    blockers: FuturesUnordered<BoxFuture<'static, (u64, EventType)>>,
    own: Option<Gone>,
}

impl Vigil {
    fn new(own: Gone, token: FencingToken, ahead: &Ahead<'_>, claim: Claim) -> Self {
        let ahead = ahead.permits();
        Self { token, claim, ahead, watched: 0, blockers: FuturesUnordered::new(), own: Some(own) }
    }

    fn watch(&mut self, weight: u64, watcher: OneshotWatcher) {
        self.watched += weight;
        self.blockers.push(watcher.changed().map(move |event| (weight, event.event_type)).boxed());
    }

    /// Whether the entry's own node was deleted, as far as the server has told.
    fn is_gone(&mut self, cx: &mut Context<'_>) -> bool {
        self.own.as_mut().is_some_and(|own| own.poll_unpin(cx).is_ready())
    }
}

impl Stream for Vigil {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Hint>> {
        while let Poll::Ready(Some((weight, event))) = self.blockers.poll_next_unpin(cx) {
            if event != EventType::NodeDeleted {
                // Its data was changed, by whom ever, or the session is over.
                return Poll::Ready(Some(Hint::Changed));
            }
            self.ahead -= weight;
            self.watched -= weight;
            // After the event, so that whatever the server told before it is known.
            if self.is_gone(cx) {
                self.own = None;
                return Poll::Ready(Some(Hint::Changed));
            }
            if self.own.is_some() && fits(self.ahead, self.claim) {
                return Poll::Ready(Some(Hint::Admitted { token: self.token }));
            }
            if fits(self.watched, self.claim) {
                return Poll::Ready(Some(Hint::Changed));
            }
        }
        if self.is_gone(cx) {
            self.own = None;
            return Poll::Ready(Some(Hint::Changed));
        }
        // Nothing that is watched is left: who waits polls. It never was: to watch nobody is to be admitted.
        if self.blockers.is_empty() && self.own.is_none() { Poll::Ready(None) } else { Poll::Pending }
    }
}
