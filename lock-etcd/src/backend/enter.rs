//! Entering a queue, and looking again.

use std::{sync::Arc, time::Duration};

use etcd_client::CompareOp;
use futures_util::future::join;
use lock_core::{
    BackendError, BackendErrorKind as Kind, BootTime, Entry, FencingToken, Holder, Standing, WaitMode,
};

use super::{
    contention::{QueueContention, ReadPermit},
    creation::{Created, Creation, Refusal, read_create},
};
use crate::{
    Etcd,
    error::{Cause, Failure},
    notify::{ConfirmedHints, Subscription},
    queue::{self, QueueView},
    session::{Member, delete},
};

/// How often a create is repeated that was refused for a reason that is over by now. Each time, another entry came first.
const MAX_CREATES: usize = 32;

/// How often a waiter looks again before it waits, because an entry left while the waiter prepared its watches.
const MAX_LOOKS: usize = 16;

/// A waiter looks again at least this often: etcd has lost events (F13, H75).
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Up to this many keys are read one by one; more are read with the whole queue, because etcd allows 128 operations in a transaction.
const MAX_CHECKED: usize = 100;

/// A queue that is no longer than this is read as a whole. The cost of that grows with the length of the queue.
const SHORT_QUEUE: u64 = 16;

/// What follows a create that was refused.
enum AfterRefusal {
    Standing(Standing),
    /// Create again. A revision says that there was room in it; the create then requires that no entry came after it.
    Again(Option<i64>),
}

/// What another look showed.
enum LookResult {
    /// Nothing that the waiter does not know already.
    Unchanged(Subscription),
    Changed(QueueView),
}

impl Etcd {
    pub(crate) async fn create(&self, entry: &Entry, wait: WaitMode) -> Result<Standing, BackendError> {
        if self.sessions.has_tombstone(entry.id) {
            return Ok(Standing::Gone);
        }
        // Futures that are rarely needed are boxed, here and below, to keep the future of every acquisition small.
        let reserved = self.sessions.reserve(entry);
        let joined = if reserved.is_some() { reserved } else { Box::pin(self.sessions.join(entry)).await? };
        let Some(member) = joined else { return Ok(Standing::Gone) };
        let contention = self.contention.at(entry.name.as_str());
        let mut none_since = None;
        for _ in 0..MAX_CREATES {
            // A queue whose permits have to be counted was not empty.
            let alone = none_since.is_none() && !contention.is_contended();
            let permit = if alone { None } else { Some(Box::pin(self.read_permit(contention)).await) };
            let sent = self.keeper.now();
            let creation = Creation::new(&member, wait, none_since, sent);
            // If this future is dropped or fails from here on, the create stays in doubt.
            if !member.begin_create() {
                return Ok(Standing::Gone);
            }
            let txn = || if alone { creation.in_empty_queue() } else { creation.in_any_queue() };
            let created = match self.refresh_lease(&member) {
                None => self.client.txn(txn).await,
                Some(proof) => Box::pin(async { join(self.client.txn(txn), proof).await.0 }).await,
            };
            if let (Some(permit), Ok(_)) = (permit, &created.answer) {
                permit.mark_answered();
            }
            let answered = !created.unanswered;
            let created = match created.answer {
                Ok(answer) => read_create(&member, &answer, alone, answered)
                    .map_err(|failure| self.backend_error(failure))?,
                Err(failure) => {
                    if answered {
                        member.create_answered(None);
                    }
                    return self.not_created(&member, failure);
                }
            };
            match created {
                Created::Put(view) => {
                    contention.set_contended(view.ahead != Some(0));
                    return match self.grant_at_once(&member, &view, sent) {
                        Some(standing) => Ok(standing),
                        None => Box::pin(self.judge_first_view(&member, view)).await,
                    };
                }
                // The other transaction finds out the reason.
                Created::NotEmpty => contention.set_contended(true),
                Created::Refused(refusal) => match Box::pin(self.refused(&member, refusal, wait)).await? {
                    AfterRefusal::Standing(standing) => return Ok(standing),
                    AfterRefusal::Again(since) => none_since = since,
                },
            }
        }
        let overtaken = format!("{MAX_CREATES} others came first, one after the other");
        Err(self.backend_error(Failure::new(Kind::Unavailable, overtaken)))
    }

    /// The standing of an entry that was put, if it is granted without another request.
    fn grant_at_once(&self, member: &Member, view: &QueueView, sent: BootTime) -> Option<Standing> {
        let token = view.revision;
        member.set_position(token, view.ahead);
        if !member.refresh(sent) {
            return Some(Standing::Gone);
        }
        let granted = view.admits(member.entry.claim) && self.is_fresh(member);
        granted.then(|| self.admitted(member, token))
    }

    /// The standing of an entry that was put, after the necessary requests.
    async fn judge_first_view(
        &self,
        member: &Arc<Member>,
        view: QueueView,
    ) -> Result<Standing, BackendError> {
        let place = view.revision;
        let view = self.look_further(member, view).await?;
        self.judge(member, place, view).await
    }

    fn not_created(&self, member: &Arc<Member>, failure: Failure) -> Result<Standing, BackendError> {
        // No entry can be created under this lease any more.
        if failure.cause() == Cause::LeaseGone {
            member.session.mark_doubtful();
            return Ok(Standing::Gone);
        }
        self.sessions.mark_gone(member);
        Err(failure.into())
    }

    async fn refused(
        &self,
        member: &Arc<Member>,
        refusal: Refusal,
        wait: WaitMode,
    ) -> Result<AfterRefusal, BackendError> {
        if let Some(token) = refusal.own {
            // An earlier request created the entry. Entries that came later are not ahead (PR17).
            let look = self.look(member, FencingToken::new(token.unsigned_abs()));
            return look.await.map(AfterRefusal::Standing);
        }
        if let Some(place) = refusal.leftover {
            // An entry under our own lease that no member has: it is left over from an interrupted operation.
            delete(&self.client, &member.key, CompareOp::Equal, place).await?;
            return Ok(AfterRefusal::Again(None));
        }
        if let Some(mismatch) = refusal.mismatch {
            self.sessions.keep_out(member).await?;
            return Err(self.backend_error(mismatch));
        }
        if let Some((_, set_at)) = member.tombstone_key().filter(|(_, set_at)| *set_at != refusal.tombstone) {
            // In the meantime a leave in doubt has set the tombstone, or the tombstone is gone, and with it the session.
            if refusal.tombstone < set_at {
                member.session.end();
            }
            return Ok(AfterRefusal::Standing(Standing::Gone));
        }
        let view = match refusal.view {
            Some(view) => Some(self.look_further(member, view).await?),
            None => None,
        };
        match view {
            Some(view) if view.admits(member.entry.claim) => Ok(AfterRefusal::Again(Some(view.revision))),
            _ if wait == WaitMode::Try && refusal.busy => {
                self.sessions.keep_out(member).await?;
                Ok(AfterRefusal::Standing(Standing::Busy))
            }
            // Nothing in the answer was in the way. So the reason was that the session's key, which has to exist, is gone.
            _ if member.session.key_guard(self.keeper.now()).is_some() => {
                member.session.end();
                Ok(AfterRefusal::Standing(Standing::Gone))
            }
            // The reason disappeared between the compares and the reads of one transaction. That cannot happen, and asking again is right.
            _ => Ok(AfterRefusal::Again(None)),
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
        let looked = match self.refresh_lease(member) {
            None => self.look_if_needed(member, place).await,
            Some(proof) => join(self.look_if_needed(member, place), proof).await.0,
        };
        // If the new proof failed, the one before may still be valid for a while.
        let lives =
            |seen| (member.refresh(sent) && member.session.is_alive(self.keeper.now())).then_some(seen);
        match looked?.and_then(lives) {
            None => Ok(Standing::Gone),
            Some(LookResult::Unchanged(hints)) => Ok(self.waits(member, place, hints)),
            Some(LookResult::Changed(view)) => {
                member.set_position(place, view.ahead);
                self.judge(member, place, view).await
            }
        }
    }

    /// A waiter that got no hint checks whether it missed something. A check whether the entries that it watches still exist shows as
    /// much as a read of the whole queue, and its cost does not grow with the number of waiters.
    async fn look_if_needed(
        &self,
        member: &Arc<Member>,
        place: i64,
    ) -> Result<Option<LookResult>, BackendError> {
        if let Some((hints, watched)) = Subscription::again(self.watches.hub(), member.entry.id)
            && self.still_standing(place, &watched).await?.is_some()
        {
            return Ok(Some(LookResult::Unchanged(hints)));
        }
        Ok(self.look_once(member, place).await?.map(LookResult::Changed))
    }

    /// Reads which entries are ahead of this place. `None` if the entry does not exist, or has another place.
    async fn look_once(&self, member: &Arc<Member>, place: i64) -> Result<Option<QueueView>, BackendError> {
        let claim = member.entry.claim;
        let permit = self.read_permit(self.contention.at(member.entry.name.as_str())).await;
        let answer =
            self.client.txn(|| queue::look_again(&member.keys, claim, &member.key, place)).await.answer?;
        permit.mark_answered();
        match queue::read_view(&member.keys, claim, &answer).map_err(|failure| self.backend_error(failure))? {
            (Some(found), mut view) if found == place => {
                if view.more && view.holder.is_none() {
                    let first =
                        self.client.txn(|| queue::first_ahead(&member.keys, claim, place)).await.answer?;
                    view.holder = queue::label_of_first(&first);
                }
                self.look_further(member, view).await.map(Some)
            }
            (found, _) => {
                if found.is_none() && member.token().is_none_or(|token| token == place) {
                    self.sessions.mark_gone(member);
                }
                Ok(None)
            }
        }
    }

    /// Reads the rest of the entries ahead, if they count and one answer did not contain all of them.
    async fn look_further(&self, member: &Member, mut view: QueueView) -> Result<QueueView, BackendError> {
        let claim = member.entry.claim;
        while view.leaves_open(claim) {
            let answer = self.client.txn(|| queue::look_further(&member.keys, claim, &view)).await.answer?;
            view = queue::read_further(&member.keys, &answer, view)
                .map_err(|failure| self.backend_error(failure))?;
        }
        Ok(view)
    }

    /// Checks whether the waiter's entry and all entries that it watches still have their places. Then the look is also valid for the
    /// returned revision. The cost does not grow with the number of waiters.
    async fn still_standing(&self, place: i64, watched: &[Vec<u8>]) -> Result<Option<i64>, BackendError> {
        if watched.len() > MAX_CHECKED {
            return Ok(None);
        }
        let answer = self.client.txn(|| queue::are_there(watched.iter().map(Vec::as_slice))).await.answer?;
        queue::all_stand(&answer, watched.len(), place).map_err(|failure| self.backend_error(failure))
    }

    /// A permit to read a queue.
    async fn read_permit<'a>(&self, contention: &'a QueueContention) -> ReadPermit<'a> {
        contention.read_permit(&self.keeper, self.config.server.command_timeout).await
    }

    /// The standing of a place that a look has shown. A waiter's watches exist before it is judged for the last time (C6).
    async fn judge(
        &self,
        member: &Arc<Member>,
        place: i64,
        mut view: QueueView,
    ) -> Result<Standing, BackendError> {
        let claim = member.entry.claim;
        if !self.is_fresh(member) {
            let (session, age) = (&member.session, member.entry.ttl / 2);
            let proved = session.prove(&self.client, age).await.is_ok();
            if !proved && !session.is_alive(self.keeper.now()) {
                return Ok(Standing::Gone);
            }
        }
        if view.admits(claim) {
            return Ok(self.admitted(member, place));
        }
        let id = member.entry.id;
        let until = self.keeper.now() + self.config.server.command_timeout;
        self.watches.wait_live(until).await;
        let hub = self.watches.hub();
        let hints = Subscription::new(hub, id, view.snapshot(place, claim, &member.key));
        for _ in 0..MAX_LOOKS {
            // Without watches the waiter polls, and gets a hint when there are watches.
            let Some(since) = hub.watching_since(id, &self.keeper, until).await else { break };
            if since <= view.revision {
                hub.arm(id);
                break;
            }
            // The queue may have changed between the look and the watch (PR27), though mostly not for this waiter. A short queue is
            // cheap to read as a whole, which saves a second request.
            let watched = || view.snapshot(place, claim, &member.key).watched();
            let still =
                if view.length > SHORT_QUEUE { self.still_standing(place, &watched()).await? } else { None };
            match still {
                Some(revision) => view.revision = revision,
                None => match self.look_once(member, place).await? {
                    Some(again) => view = again,
                    None => return Ok(Standing::Gone),
                },
            }
            if view.admits(claim) {
                return Ok(self.admitted(member, place));
            }
            hub.update(id, view.snapshot(place, claim, &member.key));
        }
        let ahead = member.set_position(place, view.ahead).unwrap_or(view.near.len() as u64);
        member.set_seen(ahead, view.holder);
        Ok(self.waits(member, place, hints))
    }

    /// The standing of a place that is admitted. The session may have ended while the answer was in flight, and the entry with
    /// it: only entries that had been admitted before learned of that end.
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

    fn waits(&self, member: &Arc<Member>, place: i64, hints: Subscription) -> Standing {
        let (ahead, label) = member.seen();
        Standing::Waiting {
            token: FencingToken::new(place.unsigned_abs()),
            ttl: member.session.granted(),
            valid_until: member.session.valid_until(member.entry.ttl),
            ahead,
            holder: Some(Holder::Ours { label }),
            look_again: self.keeper.now() + (member.entry.ttl / 3).min(LOOK_AGAIN),
            hints: Box::pin(ConfirmedHints::new(hints, &self.client, member)),
        }
    }

    /// Whether the session's last proof suffices for a grant: a grant on a shared proof that is nearly over would be
    /// lost in a moment, although the store has just answered. A private session was proved together with the look.
    fn is_fresh(&self, member: &Member) -> bool {
        let session = &member.session;
        session.is_private() || self.keeper.now().since(session.proved()) <= member.entry.ttl / 2
    }

    /// The request that makes the session's last proof leave two thirds of the entry's ttl. `None` if the proof is recent enough, as it
    /// mostly is with long leases. The lease of a private session is extended by every look.
    fn refresh_lease<'a>(
        &'a self,
        member: &'a Member,
    ) -> Option<impl Future<Output = Result<(), Failure>> + Send + 'a> {
        let session = &member.session;
        let age = if session.is_private() { Duration::ZERO } else { member.entry.ttl / 3 };
        let stale = self.keeper.now().since(session.proved()) > age;
        stale.then(|| session.prove(&self.client, age))
    }
}
