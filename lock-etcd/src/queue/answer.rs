//! What the answers of etcd mean.

use etcd_client::{GetResponse, KeyValue, ResponseHeader, TxnOpResponse, TxnResponse};
use lock_core::{BackendErrorKind as Kind, Claim, FencingToken, excerpt};

use super::{QueueView, is_exclusive, token_of};
use crate::{
    error::{Failure, misunderstood},
    keys::{self, Keys},
    session::Member,
};

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

/// Reads what a create came to, and has the member take note of it. In one step with its place: whoever leaves for it in between would
/// find a create that was answered, and no place. What is not understood, or was sent to another member too, stays in doubt.
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

/// Reads the answer to [`Creation::in_empty_queue`](super::Creation::in_empty_queue).
fn created_alone(answer: &TxnResponse) -> Result<Created, Failure> {
    Ok(if answer.succeeded() { Created::Put(QueueView::free(revision(answer)?)) } else { Created::NotEmpty })
}

/// Reads the answer to [`Creation::in_any_queue`](super::Creation::in_any_queue).
fn created(member: &Member, answer: &TxnResponse) -> Result<Created, Failure> {
    let wrong = || misunderstood("a create");
    let revision = revision(answer)?;
    let claim = member.entry.claim;
    let ops = answer.op_responses();
    if answer.succeeded() {
        // A try sees nobody who matters.
        return match &ops[..] {
            [TxnOpResponse::Get(near), TxnOpResponse::Get(first), TxnOpResponse::Put(_)] => {
                Ok(Created::Put(read_nearest(&member.keys, claim, revision, near, seen(first), true)?))
            }
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
            [near, first] => Some(read_nearest(&member.keys, claim, revision, near, seen(first), true)?),
            _ => None,
        },
    }))
}

/// Reads the answer to [`look_again`](super::look_again): the create revision of the entry, if it is there, and who is
/// ahead of it.
pub(crate) fn read_view(member: &Member, answer: &TxnResponse) -> Result<(Option<i64>, QueueView), Failure> {
    let ops = answer.op_responses();
    let gets: Vec<_> =
        ops.iter().filter_map(|op| if let TxnOpResponse::Get(get) = op { Some(get) } else { None }).collect();
    let revision = revision(answer)?;
    let (own, near, first) = match &gets[..] {
        [own, near, first] => (own, near, seen(first)),
        // The nearest come first.
        [own, near] => (own, near, (near.count(), near.kvs().last().filter(|_| !near.more()))),
        _ => return Err(misunderstood("a look")),
    };
    let view = read_nearest(&member.keys, member.entry.claim, revision, near, first, false)?;
    Ok((own.kvs().first().map(KeyValue::create_revision), view))
}

/// Reads the answer to [`look_further`](super::look_further). Some of those whom the look showed may have left since, and nobody has
/// come ahead: so the look shows all who are there, and perhaps more, as of its own revision.
pub(crate) fn read_further(
    member: &Member,
    answer: &TxnResponse,
    mut view: QueueView,
) -> Result<QueueView, Failure> {
    let ops = answer.op_responses();
    let Some(TxnOpResponse::Get(further)) = ops.first() else { return Err(misunderstood("a look")) };
    view.near.extend(rows(&member.keys, further)?);
    view.furthest = furthest(further).unwrap_or(view.furthest);
    view.more = further.more();
    if !view.more {
        view.ahead.get_or_insert(view.near.len() as u64);
    }
    Ok(view)
}

/// Reads the answer to [`first_ahead`](super::first_ahead).
pub(crate) fn label_of_first(answer: &TxnResponse) -> Option<String> {
    let ops = answer.op_responses();
    let Some(TxnOpResponse::Get(first)) = ops.first() else { return None };
    first.kvs().first().and_then(label)
}

/// Reads the answer to [`are_there`](super::are_there): the create revision of each entry that is there.
pub(crate) fn present(answer: &TxnResponse) -> Vec<Option<i64>> {
    let created = |op| match op {
        TxnOpResponse::Get(get) => GetResponse::kvs(&get).first().map(KeyValue::create_revision),
        _ => None,
    };
    answer.op_responses().into_iter().map(created).collect()
}

/// Reads the answer to [`are_there`](super::are_there) for entries that were seen ahead of `place` or at it: the revision, if
/// all are the same still. A key that was deleted may be somebody else's by now, who came later.
pub(crate) fn all_stand(answer: &TxnResponse, keys: usize, place: i64) -> Result<Option<i64>, Failure> {
    let present = present(answer);
    let stand = present.iter().filter(|created| created.is_some_and(|created| created <= place)).count();
    Ok(if stand == keys && present.len() == keys { Some(revision(answer)?) } else { None })
}

/// Reads the answer to [`is_there`](super::is_there): whether an entry has stood from its create revision to this revision, or longer.
/// `None` if that is not known, because the answer is older.
pub(crate) fn stands_since(answer: &TxnResponse, token: FencingToken, revision: i64) -> Option<bool> {
    if self::revision(answer).ok()? < revision {
        return None;
    }
    Some(present(answer).first().copied().flatten().map(token_of) == Some(token))
}

/// How long the queue is, and who is first.
fn seen(first: &GetResponse) -> (i64, Option<&KeyValue>) {
    (first.count(), first.kvs().first())
}

fn label(first: &KeyValue) -> Option<String> {
    keys::read_value(first.value())?.1
}

/// `all_ahead`: whether everybody who is there is ahead. If not, etcd counts also those behind.
fn read_nearest(
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

/// Those whom a look shows, with their permits.
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

/// Somebody with another claim, or data that is no entry.
fn claim_mismatch(keys: &Keys, key: &[u8]) -> Failure {
    let Some(row) = keys.read_entry(key) else { return foreign(key) };
    let (found_kind, found_limit) = (row.claim.kind(), row.claim.limit());
    let kind = Kind::ClaimMismatch { found_kind, found_limit };
    Failure::new(kind, format!("the queue is that of {}", row.claim))
}

/// Data of others among the entries.
pub(crate) fn foreign(key: &[u8]) -> Failure {
    let shown = excerpt(format_args!("{}", String::from_utf8_lossy(key)));
    let message = format!("among the entries stands `{shown}`, which is none");
    Failure::new(Kind::ForeignData, message)
}

/// The revision of the store at which a transaction was answered.
pub(crate) fn revision(answer: &TxnResponse) -> Result<i64, Failure> {
    answer.header().map(ResponseHeader::revision).ok_or_else(|| misunderstood("a transaction"))
}
