//! Waiting for those ahead.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{OptionFuture, join, join_all},
};
use lock_core::{BackendError, BootTime, Holder, Standing};
use zookeeper_client::Stat;

use crate::{
    ZooKeeper,
    enter::read_data,
    error::{Cause, Failure},
    line::Ahead,
    link::Watcher,
    session::{Gone, Member, Place},
    tally::Tally,
    vigil::Vigil,
};

/// A waiter looks again at least this often: watches have been lost (H75).
const LOOK_AGAIN: Duration = Duration::from_secs(5);

type Watched = Result<(Vec<u8>, Stat, Watcher), Failure>;

impl ZooKeeper {
    /// Watches whoever keeps a place out, the one ahead of these, and its own node (PR15, PR18). `None` if they have left in between,
    /// so that it has to be looked at again.
    pub(crate) async fn wait_behind(
        &self,
        member: &Arc<Member>,
        place: &Place,
        ahead: &Ahead<'_>,
        sent: BootTime,
    ) -> Result<Option<Standing>, BackendError> {
        let session = &member.session;
        let client = session.client()?;
        // Before anything is watched.
        let states = client.states();
        let watch = |node: &str| {
            let (path, client) = (member.beside(node), Arc::clone(&client));
            async move { session.answer("a watch", client.get_and_watch_data(&path)).await }
        };
        let tally = Tally::new(ahead, member.entry.claim);
        let looks = join_all(tally.nodes().map(watch));
        let known = member.gone();
        let own = OptionFuture::from(known.is_none().then(|| watch(&place.node)));
        // Whoever is first holds the lock. Mostly it is one that is watched anyway.
        let first = ahead.rows().first().map(|first| &*first.node).unwrap_or_default();
        let is_watched = tally.nodes().position(|node| node == first);
        let first = OptionFuture::from(is_watched.is_none().then(|| {
            let (path, client) = (member.beside(first), Arc::clone(&client));
            async move { session.answer("a look", client.get_data(&path)).await }
        }));
        let (own, (looks, first)) = join(own, join(looks, first)).await;
        let Some(own) = self.own_node(member, known, own)? else { return Ok(Some(Standing::Gone)) };

        let mut holder = first.and_then(Result::ok).and_then(|(data, _)| read_data(&data)?.1.into());
        let others: Vec<_> = ahead.watched().map(|row| self.sessions.find(row.entry)).collect();
        let mut vigil =
            Vigil::new(Arc::clone(member), self.sessions.nodes().clone(), place.token, tally, own, states);
        for (i, (other, answer)) in others.into_iter().zip(looks).enumerate() {
            match answer {
                Ok((data, _, watcher)) => {
                    if i == is_watched.unwrap_or_default() && holder.is_none() {
                        holder = read_data(&data).map(|(_, label)| label);
                    }
                    vigil.watch(watcher, other);
                }
                Err(failure) if failure.cause() == Cause::NoNode => return Ok(None),
                Err(failure) => return Err(failure.into()),
            }
        }
        if !member.refresh(sent) || !session.is_alive(self.keeper.now()) {
            return Ok(Some(Standing::Gone));
        }
        if !session.is_on(&client) {
            // Another client took its place meanwhile, and what that watches is told in an order that nobody here sees.
            return Ok(None);
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
    fn own_node(
        &self,
        member: &Arc<Member>,
        known: Option<Gone>,
        answer: Option<Watched>,
    ) -> Result<Option<Gone>, BackendError> {
        let watcher = match answer {
            // If it has told meanwhile, whoever listens to it looks again.
            None => return Ok(known),
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
