//! Standing in a queue.

use std::{future::ready, sync::Arc, time::Duration};

use etcd_client::CompareOp;
use futures_util::future::{Either, join};
use lock_core::{BackendError, BackendErrorKind as Kind, Entry, FencingToken, Holder, Standing, WaitMode};

use crate::{
    Etcd,
    error::{Cause, Failure, STORE},
    recipe::{self, Created, Creation, Look, Refusal},
    session::{Member, delete},
};

/// How often a create is tried again that was refused for a reason that is over. Each time somebody else got through.
const TRIES: usize = 32;

/// How often a waiter looks again before it waits, because somebody left while it prepared to. Each time somebody did.
const LOOKS: usize = 16;

/// A waiter looks again at least this often: etcd has lost events (F13, H75).
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a create that was refused comes to.
enum Next {
    Standing(Standing),
    /// Nobody came after this revision, and there was room then.
    Again(Option<i64>),
}

impl Etcd {
    pub(crate) async fn create(&self, entry: &Entry, wait: WaitMode) -> Result<Standing, BackendError> {
        if self.sessions.is_shut_out(entry.id) {
            return Ok(Standing::Gone);
        }
        let Some(member) = self.sessions.join(entry).await? else { return Ok(Standing::Gone) };
        let mut none_since = None;
        for _ in 0..TRIES {
            if member.session.epoch().is_some_and(|(_, epoch)| epoch == 0) {
                match member.session.restore_epoch(&self.wire).await {
                    Ok(()) => {}
                    Err(failure) if failure.cause() == Cause::LeaseGone => return Ok(Standing::Gone),
                    Err(failure) => return Err(failure.unsent().into()),
                }
            }
            let sent = self.keeper.now();
            // Whether this future is dropped or gets an error: it stays in doubt.
            member.creates();
            let txn = Creation { member: &member, wait, none_since }.txn();
            let (created, _) = join(self.wire.txn(txn), self.freshen(&member)).await;
            if !created.unanswered {
                member.created();
            }
            let answer = match created.answer {
                Ok(answer) => answer,
                // Nothing can be created under it any more.
                Err(failure) if failure.cause() == Cause::LeaseGone => {
                    member.session.doubt();
                    return Ok(Standing::Gone);
                }
                Err(failure) => {
                    self.sessions.is_gone(&member);
                    return Err(failure.into());
                }
            };
            match recipe::created(&member, &answer)? {
                Created::Put(look) => {
                    let token = look.revision;
                    member.stands(token, look.ahead);
                    if !member.refresh(sent) {
                        return Ok(Standing::Gone);
                    }
                    return self.stand(&member, token, look).await;
                }
                Created::Refused(refusal) => match self.refused(&member, refusal, wait).await? {
                    Next::Standing(standing) => return Ok(standing),
                    Next::Again(since) => none_since = since,
                },
            }
        }
        let message = format!("{TRIES} others came first, one after the other");
        Err(BackendError::new(STORE, Kind::Unavailable, message))
    }

    async fn refused(
        &self,
        member: &Arc<Member>,
        refusal: Refusal,
        wait: WaitMode,
    ) -> Result<Next, BackendError> {
        if let Some(token) = refusal.own {
            // An earlier request did it. Who came later is not ahead (PR17).
            let look = self.look(member, FencingToken::new(token.unsigned_abs()));
            return look.await.map(Next::Standing);
        }
        if let Some(place) = refusal.squatter {
            // Under our own lease, and nobody knows it: it is left over from something that was cut short.
            delete(&self.wire, &member.key, CompareOp::Equal, place).await?;
            return Ok(Next::Again(None));
        }
        if let Some(stranger) = refusal.stranger {
            self.sessions.is_gone(member);
            return Err(stranger);
        }
        if let Some((_, epoch)) = member.session.epoch().filter(|(_, epoch)| *epoch != refusal.epoch) {
            // The door was closed behind somebody else.
            if refusal.epoch == 0 {
                member.session.lost_epoch();
            } else {
                member.session.saw_epoch(refusal.epoch);
            }
            tracing::trace!(entry = %member.entry.id, epoch, now = refusal.epoch, "etcd session moved on");
            return Ok(Next::Again(None));
        }
        match refusal.look {
            Some(look) if look.admits(member.entry.claim) => Ok(Next::Again(Some(look.revision))),
            _ if wait == WaitMode::Try && refusal.busy => {
                self.sessions.is_gone(member);
                Ok(Next::Standing(Standing::Busy))
            }
            // Whoever was in the way has left between the compares and the look, which cannot be: but asking again is right.
            _ => Ok(Next::Again(None)),
        }
    }

    /// Looks again from a place that was taken.
    pub(crate) async fn look_again(
        &self,
        entry: &Entry,
        token: FencingToken,
    ) -> Result<Standing, BackendError> {
        let now = self.keeper.now();
        match self.sessions.find(entry.id).filter(|member| member.is_alive(now)) {
            Some(member) => self.look(&member, token).await,
            None => Ok(Standing::Gone),
        }
    }

    async fn look(&self, member: &Arc<Member>, token: FencingToken) -> Result<Standing, BackendError> {
        let place = i64::try_from(token.get()).unwrap_or(i64::MAX);
        let sent = self.keeper.now();
        let (looked, _) = join(self.look_once(member, place), self.freshen(member)).await;
        let Some(look) = looked? else { return Ok(Standing::Gone) };
        member.stands(place, look.ahead);
        // A proof that failed leaves the one before, which may do for a while.
        if !member.refresh(sent) || !member.session.is_alive(self.keeper.now()) {
            return Ok(Standing::Gone);
        }
        self.stand(member, place, look).await
    }

    /// Who is ahead of this place. `None` if the entry is not there, or has another place.
    async fn look_once(&self, member: &Arc<Member>, place: i64) -> Result<Option<Look>, BackendError> {
        let answer = self.wire.txn(recipe::look_again(member, place)).await.answer?;
        match recipe::looked(member, &answer)? {
            (Some(found), look) if found == place => Ok(Some(look)),
            (found, _) => {
                if found.is_none() && member.token().is_none_or(|token| token == place) {
                    self.sessions.is_gone(member);
                }
                Ok(None)
            }
        }
    }

    /// What a place that was seen comes to. A waiter's watches are there before it is judged for good (C6).
    async fn stand(
        &self,
        member: &Arc<Member>,
        place: i64,
        mut look: Look,
    ) -> Result<Standing, BackendError> {
        let claim = member.entry.claim;
        // What is granted on a shared proof that is nearly over would be lost in a moment, and the store has just answered.
        // A lease of its own was asked for a proof with the look.
        let (session, age) = (&member.session, member.entry.ttl / 2);
        let proved = session.is_private() || session.prove(&self.wire, age).await.is_ok();
        if !proved && !session.is_alive(self.keeper.now()) {
            return Ok(Standing::Gone);
        }
        if look.admits(claim) {
            return Ok(admitted(member, place));
        }
        let id = member.entry.id;
        let until = self.keeper.now() + self.config.command_timeout;
        self.hub.live(until).await;
        let board = self.hub.board();
        let hints = board.attend(id, look.sight(place, claim, &member.key));
        for _ in 0..LOOKS {
            // Without watches the waiter polls, and is told when there are some.
            let Some(since) = board.watched(id, &self.keeper, until).await else { break };
            if since <= look.revision {
                board.arm(id);
                break;
            }
            // Something may have happened between the look and the watch (PR27).
            match self.look_once(member, place).await? {
                Some(again) => look = again,
                None => return Ok(Standing::Gone),
            }
            if look.admits(claim) {
                return Ok(admitted(member, place));
            }
            board.see(id, look.sight(place, claim, &member.key));
        }
        Ok(Standing::Waiting {
            token: FencingToken::new(place.unsigned_abs()),
            ttl: member.session.granted(),
            valid_until: member.session.valid_until(member.entry.ttl),
            ahead: member.stands(place, look.ahead).unwrap_or(look.near.len() as u64),
            holder: Some(Holder::Ours { label: look.holder }),
            look_again: self.keeper.now() + (member.entry.ttl / 3).min(LOOK_AGAIN),
            hints: Box::pin(hints),
        })
    }

    /// Sees to it that the session's last proof leaves two thirds of the entry's ttl. Where leases are long that needs
    /// nothing; one of an entry's own is extended by every look.
    fn freshen<'a>(&'a self, member: &'a Member) -> impl Future<Output = Result<(), Failure>> + Send + 'a {
        let session = &member.session;
        let age = if session.is_private() { Duration::ZERO } else { member.entry.ttl / 3 };
        if self.keeper.now().since(session.proved()) <= age {
            return Either::Left(ready(Ok(())));
        }
        Either::Right(session.prove(&self.wire, age))
    }
}

fn admitted(member: &Member, place: i64) -> Standing {
    Standing::Admitted {
        token: FencingToken::new(place.unsigned_abs()),
        ttl: member.session.granted(),
        valid_until: member.session.valid_until(member.entry.ttl),
    }
}
