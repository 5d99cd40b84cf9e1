//! Reads the answers of etcd about a queue.

use etcd_client::{GetResponse, KeyValue, TxnOpResponse, TxnResponse};
use lock_core::{BackendErrorKind as Kind, Claim, excerpt};

use super::{presence::revision, request::is_exclusive, view::QueueView};
use crate::{
    error::{Failure, misunderstood},
    keys::{self, Keys},
};

/// Reads the answer to [`look_again`](super::request::look_again): the create revision of the entry, if it exists, and the entries
/// ahead of it.
pub(crate) fn read_view(
    keys: &Keys,
    claim: Claim,
    answer: &TxnResponse,
) -> Result<(Option<i64>, QueueView), Failure> {
    let ops = answer.op_responses();
    let gets: Vec<_> =
        ops.iter().filter_map(|op| if let TxnOpResponse::Get(get) = op { Some(get) } else { None }).collect();
    let revision = revision(answer)?;
    let (own, near, first) = match &gets[..] {
        [own, near, first] => (own, near, first_and_length(first)),
        // The nearest entries come first, so the last one is the first in the queue, unless there are more.
        [own, near] => (own, near, (near.count(), near.kvs().last().filter(|_| !near.more()))),
        _ => return Err(misunderstood("a look")),
    };
    let view = read_nearest(keys, claim, revision, near, first, false)?;
    Ok((own.kvs().first().map(KeyValue::create_revision), view))
}

/// Reads the answer to [`look_further`](super::request::look_further). Entries that the first look showed may have left
/// since, and no entry can have come ahead. So the view contains all entries that exist at its revision, and may contain more.
pub(crate) fn read_further(
    keys: &Keys,
    answer: &TxnResponse,
    mut view: QueueView,
) -> Result<QueueView, Failure> {
    let ops = answer.op_responses();
    let Some(TxnOpResponse::Get(further)) = ops.first() else { return Err(misunderstood("a look")) };
    view.near.extend(rows(keys, further)?);
    view.furthest = furthest(further).unwrap_or(view.furthest);
    view.more = further.more();
    if !view.more {
        view.ahead.get_or_insert(view.near.len() as u64);
    }
    Ok(view)
}

/// Reads the answer to [`first_ahead`](super::request::first_ahead).
pub(crate) fn label_of_first(answer: &TxnResponse) -> Option<String> {
    let ops = answer.op_responses();
    let Some(TxnOpResponse::Get(first)) = ops.first() else { return None };
    first.kvs().first().and_then(label)
}

/// The length of the queue, and its first entry.
pub(crate) fn first_and_length(first: &GetResponse) -> (i64, Option<&KeyValue>) {
    (first.count(), first.kvs().first())
}

fn label(first: &KeyValue) -> Option<String> {
    keys::read_value(first.value())?.1
}

/// `all_ahead`: whether all entries in the queue are ahead. If not, etcd also counts those behind.
pub(crate) fn read_nearest(
    queue: &Keys,
    claim: Claim,
    revision: i64,
    near: &GetResponse,
    (length, first): (i64, Option<&KeyValue>),
    all_ahead: bool,
) -> Result<QueueView, Failure> {
    let rows = rows(queue, near)?;
    let length = length.unsigned_abs();
    let ahead = if all_ahead {
        Some(length)
    } else if !near.more() && (is_exclusive(claim) || claim != Claim::reader()) {
        Some(rows.len() as u64)
    } else {
        None
    };
    let (furthest, holder) = (furthest(near).unwrap_or_default(), first.and_then(label));
    Ok(QueueView { revision, near: rows, furthest, more: near.more(), ahead, length, holder })
}

/// The entries that a look shows, with their permits.
fn rows(queue: &Keys, near: &GetResponse) -> Result<Vec<(Vec<u8>, Claim)>, Failure> {
    let row = |kv: &KeyValue| {
        let row = queue.read_entry(kv.key()).ok_or_else(|| foreign(kv.key()))?;
        Ok((kv.key().to_vec(), row.claim))
    };
    near.kvs().iter().map(row).collect()
}

/// The create revision of the last one. The nearest come first.
fn furthest(near: &GetResponse) -> Option<i64> {
    near.kvs().last().map(KeyValue::create_revision)
}

/// The failure for an entry with another claim, or for data that is no entry.
pub(crate) fn claim_mismatch(keys: &Keys, key: &[u8]) -> Failure {
    let Some(row) = keys.read_entry(key) else { return foreign(key) };
    let (found_kind, found_limit) = (row.claim.kind(), row.claim.limit());
    let kind = Kind::ClaimMismatch { found_kind, found_limit };
    Failure::new(kind, format!("the queue is that of {}", row.claim))
}

/// The failure for foreign data among the entries.
pub(crate) fn foreign(key: &[u8]) -> Failure {
    let shown = excerpt(format_args!("{}", String::from_utf8_lossy(key)));
    let message = format!("`{shown}` is among the entries, but is not an entry");
    Failure::new(Kind::ForeignData, message)
}
