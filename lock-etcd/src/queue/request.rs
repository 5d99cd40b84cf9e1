//! Builds the requests to etcd about a queue.

use etcd_client::{Compare, CompareOp, GetOptions, SortOrder, SortTarget, Txn, TxnOp};
use lock_core::{Claim, Kind};

use super::{
    presence::presence_of,
    view::{MAX_WATCHED_AHEAD, QueueView},
};
use crate::keys::{Keys, Range};

/// How many entries ahead are read if one of them is enough to keep the waiter out: these may be all of them.
const MAX_WATCHED: u8 = MAX_WATCHED_AHEAD;

/// How many entries ahead are read at once if all of them count.
const MAX_ROWS: usize = 16_384;

/// The maximum size of the keys in one answer, however long the name is.
const PAGE_BYTES: usize = 8 << 20;

/// The bytes of a row of an answer in addition to the key's own prefix.
const ROW_OVERHEAD: usize = 96;

/// Looks again: whether the entry exists, and which entries are ahead of this place.
///
/// For each requested range, etcd passes over the whole queue, because it sorts the results itself. So this requests one range if that is
/// enough: for a claim that needs all entries ahead to leave, the nearest entries include the first one, whose label is reported, unless
/// there are [more](QueueView::more).
pub(crate) fn look_again(keys: &Keys, claim: Claim, key: &[u8], token: i64) -> Txn {
    // An entry that came later is behind, even if its key sorts before (PR17).
    let up_to = Some(token - 1);
    let mut looks = vec![presence_of(key)];
    if is_exclusive(claim) {
        let (from, options) = nearest(keys, claim, up_to);
        looks.push(TxnOp::get(from, Some(options)));
    } else {
        looks.extend(nearest_and_first(keys, claim, up_to));
    }
    Txn::new().and_then(looks)
}

/// Looks further: at the entries ahead of those that a look has shown.
pub(crate) fn look_further(keys: &Keys, claim: Claim, view: &QueueView) -> Txn {
    let (from, options) = nearest(keys, claim, Some(view.furthest - 1));
    Txn::new().and_then([TxnOp::get(from, Some(options.with_keys_only()))])
}

/// Reads the first of the entries ahead of this place.
pub(crate) fn first_ahead(keys: &Keys, claim: Claim, token: i64) -> Txn {
    Txn::new().and_then([first_of(keys.agreeing(claim), Some(token - 1))])
}

/// Reads the nearest entries ahead, and the first one. `up_to` is a create revision; without it, all entries count as ahead.
pub(crate) fn nearest_and_first(keys: &Keys, claim: Claim, up_to: Option<i64>) -> Vec<TxnOp> {
    let (from, options) = nearest(keys, claim, up_to);
    vec![TxnOp::get(from, Some(options.with_keys_only())), first_of(keys.agreeing(claim), up_to)]
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

/// Reads the first entry in a range.
pub(crate) fn first_of((from, to): Range, up_to: Option<i64>) -> TxnOp {
    let mut options =
        GetOptions::new().with_range(to).with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1);
    if let Some(revision) = up_to {
        options = options.with_max_create_revision(revision);
    }
    TxnOp::get(from, Some(options))
}

/// The condition that a range has no key: a key that does not exist has the create revision 0.
pub(crate) fn is_empty((from, to): Range) -> Compare {
    Compare::create_revision(from, CompareOp::Equal, 0).with_range(to)
}

/// The condition that a key does not exist.
pub(crate) fn is_absent(key: &[u8]) -> Compare {
    Compare::create_revision(key, CompareOp::Equal, 0)
}

/// Whether an entry with this claim is admitted only if no entry is ahead.
pub(crate) fn is_exclusive(claim: Claim) -> bool {
    claim.kind() == Kind::Mutex || claim.permits() == claim.limit()
}
