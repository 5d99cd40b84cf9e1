//! Standing in a queue.

use std::{sync::Arc, time::Duration};

use etcd_client::CompareOp;
use futures_util::future::join;
use lock_core::{
    BackendError, BackendErrorKind as Kind, BootTime, Entry, FencingToken, Holder, Standing, WaitMode,
};

use crate::{
    Etcd,
    crowds::{Crowd, Turn},
    error::{Cause, Failure},
    recipe::{self, Created, Creation, Look, Refusal},
    session::{Member, delete},
    watch::{Attending, Confirmed},
};

/// How often a create is tried again that was refused for a reason that is over. Each time somebody else got through.
const TRIES: usize = 32;

/// How often a waiter looks again before it waits, because somebody left while it prepared to. Each time somebody did.
const LOOKS: usize = 16;

/// A waiter looks again at least this often: etcd has lost events (F13, H75).
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// More keys than these are looked at with the whole queue: etcd takes 128 operations.
const MANY_WATCHED: usize = 100;

/// A queue that is no longer than this is looked at as a whole: what that takes grows with its length.
const SHORT: u64 = 16;

/// What a create that was refused comes to.
enum Next {
    Standing(Standing),
    /// Nobody came after this revision, and there was room then.
    Again(Option<i64>),
}

/// What another look showed.
enum Seen {
    /// Nothing that the waiter does not know.
    AsBefore(Attending),
    Queue(Look),
}

impl Etcd {
    pub(crate) async fn create(&self, entry: &Entry, wait: WaitMode) -> Result<Standing, BackendError> {
        if self.sessions.is_shut_out(entry.id) {
            return Ok(Standing::Gone);
        }
        // What is rarely needed is boxed, here and below, so that it is not part of every acquisition's future.
        let seated = self.sessions.sit_down(entry);
        let joined = if seated.is_some() { seated } else { Box::pin(self.sessions.join(entry)).await? };
        let Some(member) = joined else { return Ok(Standing::Gone) };
        let crowd = self.crowds.at(entry.name.as_str());
        let mut none_since = None;
        for _ in 0..TRIES {
            // A queue that has to be counted was not empty.
            let alone = none_since.is_none() && !crowd.is_met();
            let turn = if alone { None } else { Some(Box::pin(self.turn(crowd)).await) };
            let sent = self.keeper.now();
            let creation = Creation::new(&member, wait, none_since, sent);
            // Whether this future is dropped or gets an error: it stays in doubt.
            if !member.creates() {
                return Ok(Standing::Gone);
            }
            let txn = || if alone { creation.alone() } else { creation.behind() };
            let created = match self.freshen(&member) {
                None => self.wire.txn(txn).await,
                Some(proof) => Box::pin(async { join(self.wire.txn(txn), proof).await.0 }).await,
            };
            if let (Some(turn), Ok(_)) = (turn, &created.answer) {
                turn.done();
            }
            let answered = !created.unanswered;
            let created = match created.answer {
                Ok(answer) => {
                    recipe::put(&member, &answer, alone, answered).map_err(|failure| self.here(failure))?
                }
                Err(failure) => {
                    if answered {
                        member.created(None);
                    }
                    return self.not_created(&member, failure);
                }
            };
            match created {
                Created::Put(look) => {
                    crowd.note(look.ahead != Some(0));
                    return match self.stands_at_once(&member, &look, sent) {
                        Some(standing) => Ok(standing),
                        None => Box::pin(self.stand_first(&member, look)).await,
                    };
                }
                // Whatever it is, the other transaction tells.
                Created::NotAlone => crowd.note(true),
                Created::Refused(refusal) => match Box::pin(self.refused(&member, refusal, wait)).await? {
                    Next::Standing(standing) => return Ok(standing),
                    Next::Again(since) => none_since = since,
                },
            }
        }
        let overtaken = format!("{TRIES} others came first, one after the other");
        Err(self.here(Failure::new(Kind::Unavailable, overtaken)))
    }

    /// What an entry that was put comes to, where nothing more has to be asked.
    fn stands_at_once(&self, member: &Member, look: &Look, sent: BootTime) -> Option<Standing> {
        let token = look.revision;
        member.stands(token, look.ahead);
        if !member.refresh(sent) {
            return Some(Standing::Gone);
        }
        let granted = look.admits(member.entry.claim) && self.is_proved(member);
        granted.then(|| self.admitted(member, token))
    }

    /// The same where something has.
    async fn stand_first(&self, member: &Arc<Member>, look: Look) -> Result<Standing, BackendError> {
        let place = look.revision;
        let look = self.look_on(member, look).await?;
        self.stand(member, place, look).await
    }

    fn not_created(&self, member: &Arc<Member>, failure: Failure) -> Result<Standing, BackendError> {
        // Nothing can be created under it any more.
        if failure.cause() == Cause::LeaseGone {
            member.session.doubt();
            return Ok(Standing::Gone);
        }
        self.sessions.is_gone(member);
        Err(failure.into())
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
            self.sessions.stays_out(member).await?;
            return Err(self.here(stranger));
        }
        if let Some((_, shut)) = member.door_key().filter(|(_, shut)| *shut != refusal.door) {
            // Whoever has left for it meanwhile has shut it. One that is gone was not shut.
            if refusal.door < shut {
                member.session.give_up();
            }
            return Ok(Next::Standing(Standing::Gone));
        }
        let look = match refusal.look {
            Some(look) => Some(self.look_on(member, look).await?),
            None => None,
        };
        match look {
            Some(look) if look.admits(member.entry.claim) => Ok(Next::Again(Some(look.revision))),
            _ if wait == WaitMode::Try && refusal.busy => {
                self.sessions.stays_out(member).await?;
                Ok(Next::Standing(Standing::Busy))
            }
            // Nothing that is shown was in the way. So it was that the session's key is gone, where that has to be there.
            _ if member.session.has_to_stand(self.keeper.now()).is_some() => {
                member.session.give_up();
                Ok(Next::Standing(Standing::Gone))
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
        let looked = match self.freshen(member) {
            None => self.look_at_need(member, place).await,
            Some(proof) => join(self.look_at_need(member, place), proof).await.0,
        };
        // A proof that failed leaves the one before, which may do for a while.
        let lives =
            |seen| (member.refresh(sent) && member.session.is_alive(self.keeper.now())).then_some(seen);
        match looked?.and_then(lives) {
            None => Ok(Standing::Gone),
            Some(Seen::AsBefore(hints)) => Ok(self.waits(member, place, hints)),
            Some(Seen::Queue(look)) => {
                member.stands(place, look.ahead);
                self.stand(member, place, look).await
            }
        }
    }

    /// A waiter that was told nothing looks whether something was kept from it: whether those whom it watches still stand tells as
    /// much as the whole queue, and takes etcd no longer however many wait.
    async fn look_at_need(&self, member: &Arc<Member>, place: i64) -> Result<Option<Seen>, BackendError> {
        if let Some((hints, watched)) = self.hub.board().attend_on(member.entry.id)
            && self.still(place, &watched).await?.is_some()
        {
            return Ok(Some(Seen::AsBefore(hints)));
        }
        Ok(self.look_once(member, place).await?.map(Seen::Queue))
    }

    /// Who is ahead of this place. `None` if the entry is not there, or has another place.
    async fn look_once(&self, member: &Arc<Member>, place: i64) -> Result<Option<Look>, BackendError> {
        let turn = self.turn(self.crowds.at(member.entry.name.as_str())).await;
        let answer = self.wire.txn(|| recipe::look_again(member, place)).await.answer?;
        turn.done();
        match recipe::looked(member, &answer).map_err(|failure| self.here(failure))? {
            (Some(found), mut look) if found == place => {
                if look.more && look.holder.is_none() {
                    let first = self.wire.txn(|| recipe::first_ahead(member, place)).await.answer?;
                    look.holder = recipe::label_of_first(&first);
                }
                self.look_on(member, look).await.map(Some)
            }
            (found, _) => {
                if found.is_none() && member.token().is_none_or(|token| token == place) {
                    self.sessions.is_gone(member);
                }
                Ok(None)
            }
        }
    }

    /// Sees the others of those ahead, where they count and one answer did not show all.
    async fn look_on(&self, member: &Member, mut look: Look) -> Result<Look, BackendError> {
        while look.leaves_open(member.entry.claim) {
            let answer = self.wire.txn(|| recipe::look_on(member, &look)).await.answer?;
            look = recipe::looked_on(member, &answer, look).map_err(|failure| self.here(failure))?;
        }
        Ok(look)
    }

    /// Whether the waiter and all whom it watches are where a look showed them: then that holds for this later revision, too.
    /// To see that is the same for etcd however many wait.
    async fn still(&self, place: i64, watched: &[Vec<u8>]) -> Result<Option<i64>, BackendError> {
        if watched.len() > MANY_WATCHED {
            return Ok(None);
        }
        let answer = self.wire.txn(|| recipe::are_there(watched.iter().map(Vec::as_slice))).await.answer?;
        recipe::all_stand(&answer, watched.len(), place).map_err(|failure| self.here(failure))
    }

    /// What went wrong at this cluster.
    pub(crate) fn here(&self, failure: Failure) -> BackendError {
        failure.at(&self.config).into()
    }

    /// A turn to look at a queue.
    async fn turn<'a>(&self, crowd: &'a Crowd) -> Turn<'a> {
        crowd.turn(&self.keeper, self.config.command_timeout).await
    }

    /// What a place that was seen comes to. A waiter's watches are there before it is judged for good (C6).
    async fn stand(
        &self,
        member: &Arc<Member>,
        place: i64,
        mut look: Look,
    ) -> Result<Standing, BackendError> {
        let claim = member.entry.claim;
        if !self.is_proved(member) {
            let (session, age) = (&member.session, member.entry.ttl / 2);
            let proved = session.prove(&self.wire, age).await.is_ok();
            if !proved && !session.is_alive(self.keeper.now()) {
                return Ok(Standing::Gone);
            }
        }
        if look.admits(claim) {
            return Ok(self.admitted(member, place));
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
            // Something may have happened between the look and the watch (PR27): mostly to others. Where few stand it is cheap
            // to see what, and saves a second question.
            let watched = || look.sight(place, claim, &member.key).watched();
            let still = if look.length > SHORT { self.still(place, &watched()).await? } else { None };
            match still {
                Some(revision) => look.revision = revision,
                None => match self.look_once(member, place).await? {
                    Some(again) => look = again,
                    None => return Ok(Standing::Gone),
                },
            }
            if look.admits(claim) {
                return Ok(self.admitted(member, place));
            }
            board.see(id, look.sight(place, claim, &member.key));
        }
        let ahead = member.stands(place, look.ahead).unwrap_or(look.near.len() as u64);
        member.sees(ahead, look.holder);
        Ok(self.waits(member, place, hints))
    }

    /// What a place that is admitted comes to. The session may have ended while the answer was on its way, and the entry
    /// with it; and whoever ended it told only those who had been admitted before.
    fn admitted(&self, member: &Member, place: i64) -> Standing {
        if !member.is_alive(self.keeper.now()) {
            return Standing::Gone;
        }
        Standing::Admitted {
            token: FencingToken::new(place.unsigned_abs()),
            ttl: member.session.granted(),
            valid_until: member.session.valid_until(member.entry.ttl),
        }
    }

    fn waits(&self, member: &Member, place: i64, hints: Attending) -> Standing {
        let (ahead, label) = member.seen();
        Standing::Waiting {
            token: FencingToken::new(place.unsigned_abs()),
            ttl: member.session.granted(),
            valid_until: member.session.valid_until(member.entry.ttl),
            ahead,
            holder: Some(Holder::Ours { label }),
            look_again: self.keeper.now() + (member.entry.ttl / 3).min(LOOK_AGAIN),
            hints: Box::pin(Confirmed::new(hints, &self.wire)),
        }
    }

    /// Whether the session's last proof does for a grant: what is granted on a shared proof that is nearly over would be
    /// lost in a moment, and the store has just answered. A lease of its own was asked for a proof with the look.
    fn is_proved(&self, member: &Member) -> bool {
        let session = &member.session;
        session.is_private() || self.keeper.now().since(session.proved()) <= member.entry.ttl / 2
    }

    /// What it takes that the session's last proof leaves two thirds of the entry's ttl. Where leases are long that is
    /// nothing; one of an entry's own is extended by every look.
    fn freshen<'a>(
        &'a self,
        member: &'a Member,
    ) -> Option<impl Future<Output = Result<(), Failure>> + Send + 'a> {
        let session = &member.session;
        let age = if session.is_private() { Duration::ZERO } else { member.entry.ttl / 3 };
        let stale = self.keeper.now().since(session.proved()) > age;
        stale.then(|| session.prove(&self.wire, age))
    }
}
