//! The recipe: what is asked of etcd, and what its answers mean. No I/O.
//!
//! An entry is a key that is created if its queue allows it, and its place is its create revision (H10: never the lock
//! service of etcd itself, which has granted locks under leases that were dead).

mod answer;
mod look;

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp};
use lock_core::{Claim, Kind, WaitMode};

pub(crate) use self::{
    answer::{Created, Refusal, created, foreign, looked, present},
    look::{Look, token_of},
};
use crate::{
    keys::{self, Keys, Range},
    session::Member,
};

/// So many of those ahead are looked at where one of them is enough, for it may be that they are all.
const FEW: u8 = look::ATTENDED;

/// So many of those ahead are looked at where all of them count.
const MANY: i64 = 16_384;

/// What it takes to create an entry.
pub(crate) struct Creation<'a> {
    pub(crate) member: &'a Member,
    pub(crate) wait: WaitMode,
    /// For a try with permits that have to be counted: nobody came after this revision.
    pub(crate) none_since: Option<i64>,
}

impl Creation<'_> {
    /// One transaction, however the queue is: if nobody is there, the entry is put and that is all; else it is put behind
    /// those who are there, if they allow it; else it says what is in the way.
    pub(crate) fn txn(&self) -> Txn {
        let mut free = self.door_open();
        free.push(empty(self.member.keys.all()));
        Txn::new().when(free).and_then([self.put()]).or_else([TxnOp::txn(self.behind())])
    }

    /// The transaction for a queue that is not empty.
    fn behind(&self) -> Txn {
        let Member { keys, entry, key, .. } = self.member;
        let claim = entry.claim;
        let mut allowed = self.door_open();
        allowed.push(absent(key));
        allowed.extend(keys.disagreeing(claim).map(empty));
        let mut refusal = why(self.member);
        let put = match (self.wait, self.none_since) {
            (WaitMode::Queue, _) => {
                let mut put = look(keys, claim, None);
                put.push(self.put());
                put
            }
            // It does not wait, so it is put only where it is admitted. A reader is, if there is no writer.
            (WaitMode::Try, None) if claim == Claim::reader() => {
                allowed.push(empty(keys.writers()));
                vec![self.put()]
            }
            (WaitMode::Try, Some(revision)) => {
                let (from, to) = keys.all();
                allowed.push(Compare::create_revision(from, CompareOp::Less, revision + 1).with_range(to));
                refusal.extend(look(keys, claim, None));
                vec![self.put()]
            }
            (WaitMode::Try, None) => {
                // Somebody is there, so one that needs all permits is not admitted; the others have to count.
                allowed.push(empty(keys.all()));
                if !needs_all(claim) {
                    refusal.extend(look(keys, claim, None));
                }
                vec![self.put()]
            }
        };
        Txn::new().when(allowed).and_then(put).or_else(refusal)
    }

    /// No create of this session was told to stay out since (PR08).
    fn door_open(&self) -> Vec<Compare> {
        let epoch = self.member.session.epoch();
        epoch.map(|(key, epoch)| Compare::mod_revision(key, CompareOp::Equal, epoch)).into_iter().collect()
    }

    fn put(&self) -> TxnOp {
        let Member { key, entry, session, .. } = self.member;
        let options = PutOptions::new().with_lease(session.lease());
        TxnOp::put(key.clone(), keys::value(entry), Some(options))
    }
}

/// Looks again: whether the entry is there, and who is ahead of this place.
pub(crate) fn look_again(member: &Member, token: i64) -> Txn {
    let Member { keys, entry, key, .. } = member;
    let mut looks = vec![exists(key)];
    // Whoever came later is behind, also if his key stands before (PR17).
    looks.extend(look(keys, entry.claim, Some(token - 1)));
    Txn::new().and_then(looks)
}

/// Whether these entries are there: at most 100, for etcd takes 128 in a transaction (PR18).
pub(crate) fn are_there<'a>(members: impl IntoIterator<Item = &'a Member>) -> Txn {
    let looks: Vec<_> = members.into_iter().map(|member| exists(&member.key)).collect();
    Txn::new().and_then(looks)
}

fn exists(key: &[u8]) -> TxnOp {
    TxnOp::get(key, Some(GetOptions::new().with_keys_only()))
}

/// What is in the way: the entry itself, whoever is first, and the session's key.
fn why(member: &Member) -> Vec<TxnOp> {
    let Member { keys, entry, session, key, .. } = member;
    let mut why = vec![TxnOp::get(key.clone(), None), first(keys.all(), None)];
    // Whoever does not agree, for the first may be one of the same kind beside somebody else's data.
    for (from, to) in keys.disagreeing(entry.claim) {
        why.push(TxnOp::get(from, Some(GetOptions::new().with_range(to).with_limit(1).with_keys_only())));
    }
    why.extend(session.epoch().map(|(key, _)| exists(key)));
    why
}

/// The nearest ahead, and the first one. `up_to` is a create revision; without it, everybody who is there.
fn look(keys: &Keys, claim: Claim, up_to: Option<i64>) -> Vec<TxnOp> {
    // Readers do not keep each other out.
    let (from, to) = if claim == Claim::reader() { keys.writers() } else { keys.agreeing(claim) };
    let few = needs_all(claim) || claim == Claim::reader();
    let mut options = GetOptions::new()
        .with_range(to)
        .with_sort(SortTarget::Create, SortOrder::Descend)
        .with_limit(if few { FEW.into() } else { MANY.min(i64::from(claim.limit()) + i64::from(FEW)) })
        .with_keys_only();
    if let Some(revision) = up_to {
        options = options.with_max_create_revision(revision);
    }
    vec![TxnOp::get(from, Some(options)), first(keys.agreeing(claim), up_to)]
}

fn first((from, to): Range, up_to: Option<i64>) -> TxnOp {
    let mut options =
        GetOptions::new().with_range(to).with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1);
    if let Some(revision) = up_to {
        options = options.with_max_create_revision(revision);
    }
    TxnOp::get(from, Some(options))
}

/// No key in a range: one that is not there was created at 0.
fn empty((from, to): Range) -> Compare {
    Compare::create_revision(from, CompareOp::Equal, 0).with_range(to)
}

fn absent(key: &[u8]) -> Compare {
    Compare::create_revision(key, CompareOp::Equal, 0)
}

/// Whether it is admitted only if nobody is ahead.
fn needs_all(claim: Claim) -> bool {
    claim.kind() == Kind::Mutex || claim.permits() == claim.limit()
}
