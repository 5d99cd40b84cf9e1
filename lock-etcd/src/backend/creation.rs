//! [`Creation`]: how an entry is put into its queue, and what the answer means. No I/O.

use etcd_client::{
    Compare, CompareOp, GetOptions, KeyValue, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use lock_core::{BootTime, Claim, WaitMode};

use crate::{
    error::{Failure, misunderstood},
    keys,
    queue::{
        QueueView, claim_mismatch, first_and_length, first_of, is_absent, is_empty, is_exclusive,
        nearest_and_first, presence_of, read_nearest, revision,
    },
    session::Member,
};

/// What it takes to create an entry.
pub(crate) struct Creation<'a> {
    member: &'a Member,
    wait: WaitMode,
    /// For a try with permits that have to be counted: nobody came after this revision.
    none_since: Option<i64>,
    /// A key that has to be there, which was there in this revision.
    session: Option<(&'a [u8], i64)>,
}

impl<'a> Creation<'a> {
    pub(crate) fn new(member: &'a Member, wait: WaitMode, none_since: Option<i64>, now: BootTime) -> Self {
        Self { member, wait, none_since, session: member.session.key_guard(now) }
    }

    /// For a queue that is thought to be empty: puts the entry if it is, and says nothing more. It is what a lock that
    /// nobody else wants costs, so it has no part that an empty queue does not need: whatever stands in a transaction is
    /// sent, checked and logged, also in a branch that is not taken.
    pub(crate) fn in_empty_queue(&self) -> Txn {
        let mut free = self.not_tombstoned();
        free.push(is_empty(self.member.keys.all()));
        Txn::new().when(free).and_then([self.put()])
    }

    /// However the queue is: puts the entry behind those who are there, if they allow it; else says what is in the way.
    pub(crate) fn in_any_queue(&self) -> Txn {
        let Member { keys, entry, key, .. } = self.member;
        let claim = entry.claim;
        let mut allowed = self.not_tombstoned();
        allowed.push(is_absent(key));
        allowed.extend(keys.disagreeing(claim).map(is_empty));
        let mut refusal = self.reasons();
        let put = match (self.wait, self.none_since) {
            (WaitMode::Queue, _) => {
                let mut put = nearest_and_first(keys, claim, None);
                put.push(self.put());
                put
            }
            // It does not wait, so it is put only where it is admitted. A reader is, if there is no writer.
            (WaitMode::Try, None) if claim == Claim::reader() => {
                allowed.push(is_empty(keys.writers()));
                vec![self.put()]
            }
            (WaitMode::Try, Some(revision)) => {
                let (from, to) = keys.all();
                allowed.push(Compare::create_revision(from, CompareOp::Less, revision + 1).with_range(to));
                refusal.extend(nearest_and_first(keys, claim, None));
                vec![self.put()]
            }
            (WaitMode::Try, None) => {
                // Where somebody is there, one that needs all permits is not admitted; the others have to count.
                allowed.push(is_empty(keys.all()));
                if !is_exclusive(claim) {
                    refusal.extend(nearest_and_first(keys, claim, None));
                }
                vec![self.put()]
            }
        };
        Txn::new().when(allowed).and_then(put).or_else(refusal)
    }

    /// No tombstone was set since the member came (PR08).
    fn not_tombstoned(&self) -> Vec<Compare> {
        let tombstone = self.member.tombstone_key();
        let unchanged = tombstone.map(|(key, set_at)| Compare::mod_revision(key, CompareOp::Equal, set_at));
        let mut conditions: Vec<_> = unchanged.into_iter().collect();
        if let Some((key, opened)) = self.session {
            conditions.push(Compare::create_revision(key, CompareOp::Greater, 0));
            conditions.push(Compare::create_revision(key, CompareOp::Less, opened + 1));
        }
        conditions
    }

    fn put(&self) -> TxnOp {
        let Member { key, entry, session, .. } = self.member;
        let options = PutOptions::new().with_lease(session.lease());
        TxnOp::put(key.clone(), keys::value(entry), Some(options))
    }

    /// What is in the way: the entry itself, the first in the queue, and the tombstone.
    fn reasons(&self) -> Vec<TxnOp> {
        let Member { keys, entry, key, .. } = self.member;
        let mut reasons = vec![TxnOp::get(key.clone(), None), first_of(keys.all(), None)];
        // Entries that disagree are asked for as well: the first in the queue may agree, and stand beside data of others.
        for (from, to) in keys.disagreeing(entry.claim) {
            reasons.push(TxnOp::get(
                from,
                Some(GetOptions::new().with_range(to).with_limit(1).with_keys_only()),
            ));
        }
        reasons.extend(self.member.tombstone_key().map(|(key, _)| presence_of(&key)));
        reasons
    }
}

/// What became of a create.
#[derive(Debug)]
pub(crate) enum Created {
    /// The entry is there, and this is what was ahead then. Its create revision is that of the look.
    Put(QueueView),
    /// Somebody is there, or its tombstone was set. Nothing else was asked.
    NotEmpty,
    Refused(Refusal),
}

/// Why nothing was created.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The create revision of the entry, if it is there already.
    pub(crate) own: Option<i64>,
    /// The create revision of another entry under its key, which should not be there.
    pub(crate) leftover: Option<i64>,
    /// Somebody who stands there with another claim, or is none of ours.
    pub(crate) mismatch: Option<Failure>,
    /// Whether anybody is there.
    pub(crate) busy: bool,
    /// The mod revision of the key of the member's tombstone: 0 if it is not there.
    pub(crate) tombstone: i64,
    /// Who is there, where a try has to count.
    pub(crate) view: Option<QueueView>,
}

/// Reads the outcome of a create, and has the member take note of it, together with its place: a leave in between would find a
/// create that was answered, and no place. A create whose answer is not understood, or that was sent to another member too, stays in
/// doubt.
pub(crate) fn read_create(
    member: &Member,
    answer: &TxnResponse,
    alone: bool,
    answered: bool,
) -> Result<Created, Failure> {
    let created = if alone { created_alone(answer)? } else { created(member, answer)? };
    let place = match &created {
        Created::Put(view) => Some((view.revision, view.ahead)),
        Created::NotEmpty | Created::Refused(_) => None,
    };
    if answered {
        member.create_answered(place);
    } else if let Some((token, ahead)) = place {
        member.set_position(token, ahead);
    }
    Ok(created)
}

/// Reads the answer to [`Creation::in_empty_queue`].
fn created_alone(answer: &TxnResponse) -> Result<Created, Failure> {
    Ok(if answer.succeeded() { Created::Put(QueueView::free(revision(answer)?)) } else { Created::NotEmpty })
}

/// Reads the answer to [`Creation::in_any_queue`].
fn created(member: &Member, answer: &TxnResponse) -> Result<Created, Failure> {
    let wrong = || misunderstood("a create");
    let revision = revision(answer)?;
    let claim = member.entry.claim;
    let ops = answer.op_responses();
    if answer.succeeded() {
        // A try sees nobody who matters.
        return match &ops[..] {
            [TxnOpResponse::Get(near), TxnOpResponse::Get(first), TxnOpResponse::Put(_)] => Ok(Created::Put(
                read_nearest(&member.keys, claim, revision, near, first_and_length(first), true)?,
            )),
            [TxnOpResponse::Put(_)] => Ok(Created::Put(QueueView::free(revision))),
            _ => Err(wrong()),
        };
    }
    let gets: Vec<_> = ops
        .iter()
        .map(|op| if let TxnOpResponse::Get(get) = op { Ok(get) } else { Err(wrong()) })
        .collect::<Result<_, _>>()?;
    let [own, first, before, behind, rest @ ..] = &gets[..] else { return Err(wrong()) };
    let (tombstone, rest) = match rest {
        [tombstone, rest @ ..] if !member.session.is_private() => {
            (tombstone.kvs().first().map_or(0, KeyValue::mod_revision), rest)
        }
        rest => (0, rest),
    };
    let own = own.kvs().first();
    let place = own.map(KeyValue::create_revision);
    let mine = own.and_then(|kv| keys::read_value(kv.value())).is_some_and(|(id, _)| id == member.entry.id);
    let disagreeing = [before, behind].into_iter().find_map(|get| get.kvs().first());
    Ok(Created::Refused(Refusal {
        own: mine.then_some(place).flatten(),
        leftover: place.filter(|_| !mine),
        mismatch: disagreeing.map(|kv| claim_mismatch(&member.keys, kv.key())),
        busy: !first.kvs().is_empty(),
        tombstone,
        view: match rest {
            [near, first] => {
                Some(read_nearest(&member.keys, claim, revision, near, first_and_length(first), true)?)
            }
            _ => None,
        },
    }))
}
