//! [`Creation`]: the transactions that put an entry into its queue, and what their answers mean. No I/O.

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

/// Builds the transactions that create an entry.
pub(crate) struct Creation<'a> {
    member: &'a Member,
    wait: WaitMode,
    /// For a try that has to count permits: no entry may have come after this revision.
    none_since: Option<i64>,
    /// A key that has to exist, and a revision in which it existed.
    session: Option<(&'a [u8], i64)>,
}

impl<'a> Creation<'a> {
    pub(crate) fn new(member: &'a Member, wait: WaitMode, none_since: Option<i64>, now: BootTime) -> Self {
        Self { member, wait, none_since, session: member.session.key_guard(now) }
    }

    /// For a queue that is probably empty: puts the entry if the queue is empty, and reads nothing. This is the cost of an
    /// uncontended lock, so it has no part that an empty queue does not need: every part of a transaction is sent, checked and
    /// logged, also in a branch that is not taken.
    pub(crate) fn in_empty_queue(&self) -> Txn {
        let mut free = self.not_tombstoned();
        free.push(is_empty(self.member.keys.all()));
        Txn::new().when(free).and_then([self.put()])
    }

    /// For any queue: puts the entry behind the entries that are there, if they allow it; otherwise reads what is in the way.
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
            // A try does not wait, so its entry is put only if it is admitted immediately. A reader is admitted if there is no writer.
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
                // If the queue is not empty, an exclusive claim is not admitted, and other claims have to count permits.
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
        // Disagreeing entries are read as well: the first in the queue may agree, next to foreign data.
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

/// The outcome of a create.
#[derive(Debug)]
pub(crate) enum Created {
    /// The entry was put, and the view shows what was ahead of it then. Its create revision is the revision of the view.
    Put(QueueView),
    /// The queue is not empty, or the tombstone was set. The transaction asked nothing else.
    NotEmpty,
    Refused(Refusal),
}

/// Why no entry was created.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The create revision of the entry, if it is there already.
    pub(crate) own: Option<i64>,
    /// The create revision of another entry under its key, which should not be there.
    pub(crate) leftover: Option<i64>,
    /// An error if the queue has entries with another claim, or foreign data.
    pub(crate) mismatch: Option<Failure>,
    /// Whether the queue has any entries.
    pub(crate) busy: bool,
    /// The mod revision of the member's tombstone key; 0 if the key does not exist.
    pub(crate) tombstone: i64,
    /// The entries in the queue, if a try has to count permits.
    pub(crate) view: Option<QueueView>,
}

/// Reads the outcome of a create, and records it in the member in the same step as its place: otherwise a leave in between would find a
/// create that was answered, and no place. A create whose answer is not understood, or that was sent to another cluster member too, stays
/// in doubt.
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
        // A try is put only if it is admitted, so its view may be that of an empty queue.
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
