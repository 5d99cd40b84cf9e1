//! The recipe: what is asked of etcd, and what its answers mean. No I/O.
//!
//! An entry is a key that is created if its queue allows it, and its place is its create revision (H10: never the lock
//! service of etcd itself, which has granted locks under leases that were dead).

mod answer;
mod view;

use etcd_client::{Compare, CompareOp, GetOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp};
use lock_core::{BootTime, Claim, Kind, WaitMode};

pub(crate) use self::{
    answer::{
        Created, Refusal, all_stand, foreign, label_of_first, present, read_create, read_further, read_view,
        revision, stands_since,
    },
    view::{QueueView, token_of},
};
use crate::{
    keys::{self, Keys, Range},
    session::Member,
};

/// So many of those ahead are looked at where one of them is enough, for it may be that they are all.
const MAX_WATCHED: u8 = view::MAX_WATCHED_AHEAD;

/// So many of those ahead are looked at at once where all of them count.
const MAX_ROWS: usize = 16_384;

/// So many bytes of keys are in one answer, however long the name is.
pub(crate) const PAGE_BYTES: usize = 8 << 20;

/// What etcd says of a key beside the key, and what stands in it behind the claim.
const ROW_OVERHEAD: usize = 96;

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
        free.push(empty(self.member.keys.all()));
        Txn::new().when(free).and_then([self.put()])
    }

    /// However the queue is: puts the entry behind those who are there, if they allow it; else says what is in the way.
    pub(crate) fn in_any_queue(&self) -> Txn {
        let Member { keys, entry, key, .. } = self.member;
        let claim = entry.claim;
        let mut allowed = self.not_tombstoned();
        allowed.push(absent(key));
        allowed.extend(keys.disagreeing(claim).map(empty));
        let mut refusal = self.reasons();
        let put = match (self.wait, self.none_since) {
            (WaitMode::Queue, _) => {
                let mut put = nearest_and_first(keys, claim, None);
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
                refusal.extend(nearest_and_first(keys, claim, None));
                vec![self.put()]
            }
            (WaitMode::Try, None) => {
                // Where somebody is there, one that needs all permits is not admitted; the others have to count.
                allowed.push(empty(keys.all()));
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
        let mut reasons = vec![TxnOp::get(key.clone(), None), first(keys.all(), None)];
        // Whoever does not agree, for the first may be one of the same kind beside somebody else's data.
        for (from, to) in keys.disagreeing(entry.claim) {
            reasons.push(TxnOp::get(
                from,
                Some(GetOptions::new().with_range(to).with_limit(1).with_keys_only()),
            ));
        }
        reasons.extend(self.member.tombstone_key().map(|(key, _)| exists(&key)));
        reasons
    }
}

/// Looks again: whether the entry is there, and who is ahead of this place.
///
/// Each range of a queue takes etcd a pass over all of it, for it sorts by hand. Where one is enough there is no other: whoever needs
/// everybody to leave sees the first one, whose label is told, among the nearest, unless there are [more](QueueView::more).
pub(crate) fn look_again(member: &Member, token: i64) -> Txn {
    let Member { keys, entry, key, .. } = member;
    // Whoever came later is behind, also if his key stands before (PR17).
    let up_to = Some(token - 1);
    let mut looks = vec![exists(key)];
    if is_exclusive(entry.claim) {
        let (from, options) = nearest(keys, entry.claim, up_to);
        looks.push(TxnOp::get(from, Some(options)));
    } else {
        looks.extend(nearest_and_first(keys, entry.claim, up_to));
    }
    Txn::new().and_then(looks)
}

/// Looks on: at those who stand ahead of all whom a look has shown.
pub(crate) fn look_further(member: &Member, view: &QueueView) -> Txn {
    let (from, options) = nearest(&member.keys, member.entry.claim, Some(view.furthest - 1));
    Txn::new().and_then([TxnOp::get(from, Some(options.with_keys_only()))])
}

/// Who is first of those ahead of this place.
pub(crate) fn first_ahead(member: &Member, token: i64) -> Txn {
    Txn::new().and_then([first(member.keys.agreeing(member.entry.claim), Some(token - 1))])
}

/// What a question is answered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// What the member that is asked has applied. It asks nobody else for that.
    WhatAMemberHas,
    /// What the cluster has agreed on when it is asked.
    TheLatest,
}

/// Whether a key is there.
pub(crate) fn is_there(key: &[u8], reads: Reads) -> Txn {
    let options = GetOptions::new().with_keys_only();
    let options = match reads {
        Reads::WhatAMemberHas => options.with_serializable(),
        Reads::TheLatest => options,
    };
    Txn::new().and_then([TxnOp::get(key, Some(options))])
}

/// Whether these keys are there: at most 100, for etcd takes 128 operations in a transaction (PR18).
pub(crate) fn are_there<'a>(keys: impl IntoIterator<Item = &'a [u8]>) -> Txn {
    let looks: Vec<_> = keys.into_iter().map(exists).collect();
    Txn::new().and_then(looks)
}

fn exists(key: &[u8]) -> TxnOp {
    TxnOp::get(key, Some(GetOptions::new().with_keys_only()))
}

/// The nearest ahead, and the first one. `up_to` is a create revision; without it, everybody who is there.
fn nearest_and_first(keys: &Keys, claim: Claim, up_to: Option<i64>) -> Vec<TxnOp> {
    let (from, options) = nearest(keys, claim, up_to);
    vec![TxnOp::get(from, Some(options.with_keys_only())), first(keys.agreeing(claim), up_to)]
}

fn nearest(keys: &Keys, claim: Claim, up_to: Option<i64>) -> (Vec<u8>, GetOptions) {
    // Readers do not keep each other out.
    let (from, to) = if claim == Claim::reader() { keys.writers() } else { keys.agreeing(claim) };
    let rows = if is_exclusive(claim) || claim == Claim::reader() {
        MAX_WATCHED.into()
    } else {
        let page = (PAGE_BYTES / (from.len() + ROW_OVERHEAD)).clamp(1, MAX_ROWS);
        (i64::from(claim.limit()) + i64::from(MAX_WATCHED)).min(i64::try_from(page).unwrap_or(i64::MAX))
    };
    let mut options =
        GetOptions::new().with_range(to).with_sort(SortTarget::Create, SortOrder::Descend).with_limit(rows);
    if let Some(revision) = up_to {
        options = options.with_max_create_revision(revision);
    }
    (from, options)
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
fn is_exclusive(claim: Claim) -> bool {
    claim.kind() == Kind::Mutex || claim.permits() == claim.limit()
}
