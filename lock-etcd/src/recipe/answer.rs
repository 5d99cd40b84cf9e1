//! What the answers of etcd mean.

use etcd_client::{GetResponse, KeyValue, ResponseHeader, TxnOpResponse, TxnResponse};
use lock_core::{BackendErrorKind as Kind, Claim, FencingToken, excerpt};

use super::{Look, needs_all, token_of};
use crate::{
    error::{Failure, misunderstood},
    keys::{self, Keys},
    session::Member,
};

/// What became of a create.
#[derive(Debug)]
pub(crate) enum Created {
    /// The entry is there, and this is what was ahead then. Its create revision is that of the look.
    Put(Look),
    /// Somebody is there, or the door is shut. Nothing else was asked.
    NotAlone,
    Refused(Refusal),
}

/// Why nothing was created.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The create revision of the entry, if it is there already.
    pub(crate) own: Option<i64>,
    /// The create revision of another entry under its key, which should not be there.
    pub(crate) squatter: Option<i64>,
    /// Somebody who stands there with another claim, or is none of ours.
    pub(crate) stranger: Option<Failure>,
    /// Whether anybody is there.
    pub(crate) busy: bool,
    /// The mod revision of the key of the member's door: 0 if it is not there.
    pub(crate) door: i64,
    /// Who is there, where a try has to count.
    pub(crate) look: Option<Look>,
}

/// Reads what a create came to, and has the member take note of it. In one step with its place: whoever leaves for it in between would
/// find a create that was answered, and no place. What is not understood, or was sent to another member too, stays in doubt.
pub(crate) fn put(
    member: &Member,
    answer: &TxnResponse,
    alone: bool,
    answered: bool,
) -> Result<Created, Failure> {
    let created = if alone { created_alone(answer)? } else { created(member, answer)? };
    let place = match &created {
        Created::Put(look) => Some((look.revision, look.ahead)),
        Created::NotAlone | Created::Refused(_) => None,
    };
    if answered {
        member.created(place);
    } else if let Some((token, ahead)) = place {
        member.stands(token, ahead);
    }
    Ok(created)
}

/// Reads the answer to [`Creation::alone`](super::Creation::alone).
fn created_alone(answer: &TxnResponse) -> Result<Created, Failure> {
    Ok(if answer.succeeded() { Created::Put(Look::free(revision(answer)?)) } else { Created::NotAlone })
}

/// Reads the answer to [`Creation::behind`](super::Creation::behind).
fn created(member: &Member, answer: &TxnResponse) -> Result<Created, Failure> {
    let wrong = || misunderstood("a create");
    let revision = revision(answer)?;
    let claim = member.entry.claim;
    let ops = answer.op_responses();
    if answer.succeeded() {
        // A try sees nobody who matters.
        return match &ops[..] {
            [TxnOpResponse::Get(near), TxnOpResponse::Get(first), TxnOpResponse::Put(_)] => {
                Ok(Created::Put(look(&member.keys, claim, revision, near, seen(first), true)?))
            }
            [TxnOpResponse::Put(_)] => Ok(Created::Put(Look::free(revision))),
            _ => Err(wrong()),
        };
    }
    let gets: Vec<_> = ops
        .iter()
        .map(|op| if let TxnOpResponse::Get(get) = op { Ok(get) } else { Err(wrong()) })
        .collect::<Result<_, _>>()?;
    let [own, first, before, behind, rest @ ..] = &gets[..] else { return Err(wrong()) };
    let (door, rest) = match rest {
        [door, rest @ ..] if !member.session.is_private() => {
            (door.kvs().first().map_or(0, KeyValue::mod_revision), rest)
        }
        rest => (0, rest),
    };
    let own = own.kvs().first();
    let place = own.map(KeyValue::create_revision);
    let mine = own.and_then(|kv| keys::read_value(kv.value())).is_some_and(|(id, _)| id == member.entry.id);
    let stranger = [before, behind].into_iter().find_map(|get| get.kvs().first());
    Ok(Created::Refused(Refusal {
        own: mine.then_some(place).flatten(),
        squatter: place.filter(|_| !mine),
        stranger: stranger.map(|kv| mismatch(&member.keys, kv.key())),
        busy: !first.kvs().is_empty(),
        door,
        look: match rest {
            [near, first] => Some(look(&member.keys, claim, revision, near, seen(first), true)?),
            _ => None,
        },
    }))
}

/// Reads the answer to [`look_again`](super::look_again): the create revision of the entry, if it is there, and who is
/// ahead of it.
pub(crate) fn looked(member: &Member, answer: &TxnResponse) -> Result<(Option<i64>, Look), Failure> {
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
    let look = look(&member.keys, member.entry.claim, revision, near, first, false)?;
    Ok((own.kvs().first().map(KeyValue::create_revision), look))
}

/// Reads the answer to [`look_on`](super::look_on). Some of those whom the look showed may have left since, and nobody has
/// come ahead: so the look shows all who are there, and perhaps more, as of its own revision.
pub(crate) fn looked_on(member: &Member, answer: &TxnResponse, mut look: Look) -> Result<Look, Failure> {
    let ops = answer.op_responses();
    let Some(TxnOpResponse::Get(further)) = ops.first() else { return Err(misunderstood("a look")) };
    look.near.extend(rows(&member.keys, further)?);
    look.furthest = furthest(further).unwrap_or(look.furthest);
    look.more = further.more();
    if !look.more {
        look.ahead.get_or_insert(look.near.len() as u64);
    }
    Ok(look)
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
fn look(
    queue: &Keys,
    claim: Claim,
    revision: i64,
    near: &GetResponse,
    (length, first): (i64, Option<&KeyValue>),
    all_ahead: bool,
) -> Result<Look, Failure> {
    let rows = rows(queue, near)?;
    let length = length.unsigned_abs();
    let ahead = if all_ahead {
        Some(length)
    } else if !near.more() && (needs_all(claim) || claim != Claim::reader()) {
        Some(rows.len() as u64)
    } else {
        None
    };
    let (furthest, holder) = (furthest(near).unwrap_or_default(), first.and_then(label));
    Ok(Look { revision, near: rows, furthest, more: near.more(), ahead, length, holder })
}

/// Those whom a look shows, with their permits.
fn rows(queue: &Keys, near: &GetResponse) -> Result<Vec<(Vec<u8>, Claim)>, Failure> {
    let row = |kv: &KeyValue| {
        let row = queue.row(kv.key()).ok_or_else(|| foreign(kv.key()))?;
        Ok((kv.key().to_vec(), row.claim))
    };
    near.kvs().iter().map(row).collect()
}

/// The create revision of the last one. The nearest come first.
fn furthest(near: &GetResponse) -> Option<i64> {
    near.kvs().last().map(KeyValue::create_revision)
}

/// Somebody with another claim, or data that is no entry.
fn mismatch(keys: &Keys, key: &[u8]) -> Failure {
    let Some(row) = keys.row(key) else { return foreign(key) };
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
