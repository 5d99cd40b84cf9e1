//! Reads the answers of the scripts. An answer that the scripts never give is a [`Protocol`](Kind::Protocol) error.
//!
//! Each reader takes the `server` that answered, for its errors.

use std::time::Duration;

use lock_core::{
    BackendError, BackendErrorKind as Kind, Claim, Departure, EntryId, FencingToken, Holder,
    Kind as LockKind, QueueRow, excerpt, shown_label,
};
use redis::Value;

use crate::error::{STORE, kind_of_code};

/// What was read from an answer.
type Read<T> = Result<T, Refusal>;

/// An answer that was not understood, or that is an error.
#[derive(Debug)]
struct Refusal {
    kind: Kind,
    message: String,
}

impl Refusal {
    /// The error, with the server that answered.
    fn of(self, server: &str) -> BackendError {
        BackendError::new(STORE, self.kind, format!("{server}: {}", self.message))
    }
}

/// What a script answers to `enter`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EnterReply {
    Admitted {
        token: FencingToken,
    },
    /// `unnotified`: the waiter may get no hint, and has to poll.
    Waiting {
        token: FencingToken,
        ahead: u64,
        look_again: Duration,
        holder: Option<Holder>,
        unnotified: bool,
    },
    Busy,
    Gone,
}

pub(crate) fn enter(answer: &Value, server: &str) -> Result<EnterReply, BackendError> {
    read_enter(answer).map_err(|refusal| refusal.of(server))
}

fn read_enter(answer: &Value) -> Read<EnterReply> {
    if let Value::BulkString(_) = answer {
        return Ok(EnterReply::Admitted { token: token(answer)? });
    }
    let parts = array(answer)?;
    match (text(parts.first())?, &parts[1..]) {
        ("W", [token, ahead, look_again, who, label, unnotified @ ..]) if unnotified.len() <= 1 => {
            Ok(EnterReply::Waiting {
                token: self::token(token)?,
                ahead: number(ahead)?,
                look_again: Duration::from_millis(number(look_again)?),
                holder: holder(who, label)?,
                unnotified: !unnotified.is_empty(),
            })
        }
        ("B", []) => Ok(EnterReply::Busy),
        ("G", []) => Ok(EnterReply::Gone),
        ("M", [kind, limit]) => Err(mismatch(self::kind(kind)?, number(limit)?)),
        ("F", [what]) => Err(foreign(text(Some(what))?)),
        ("C", [key]) => Err(counter_trouble(Kind::ForeignData, key, "is no counter of tokens")?),
        ("X", [key]) => Err(counter_trouble(Kind::TokensExhausted, key, "is at its end")?),
        _ => Err(not_understood(answer)),
    }
}

/// The hint in an answer to a leave, if the lock went to an entry of this process.
pub(crate) fn hint(answer: &Value) -> Option<&[u8]> {
    match answer {
        Value::BulkString(hint) => Some(hint),
        _ => None,
    }
}

pub(crate) fn departure(answer: &Value, server: &str) -> Result<Departure, BackendError> {
    match answer {
        Value::Int(1) | Value::BulkString(_) => Ok(Departure::Left),
        Value::Int(0) => Ok(Departure::Absent),
        _ => Err(not_understood(answer).of(server)),
    }
}

/// Whether a mutex was released.
pub(crate) fn released(answer: &Value, server: &str) -> Result<bool, BackendError> {
    as_bool(answer).ok_or_else(|| not_understood(answer).of(server))
}

/// For each of `count` leases whether it was renewed.
pub(crate) fn renewals(
    answer: &Value,
    count: usize,
    server: &str,
) -> Result<Vec<Result<bool, BackendError>>, BackendError> {
    let parts = several(answer, count).map_err(|refusal| refusal.of(server))?;
    Ok(parts.iter().map(|part| renewed(part).map_err(|refusal| refusal.of(server))).collect())
}

fn renewed(part: &Value) -> Read<bool> {
    match part {
        Value::Int(1) => Ok(true),
        Value::Int(0) => Ok(false),
        part => Err(failed(&String::from_utf8_lossy(bytes(Some(part))?))),
    }
}

/// For each of `count` keys whether its data may be ours.
pub(crate) fn perhaps_ours(answer: &Value, count: usize, server: &str) -> Result<Vec<bool>, BackendError> {
    let parts = several(answer, count).map_err(|refusal| refusal.of(server))?;
    let marks: Option<Vec<_>> = parts.iter().map(as_bool).collect();
    marks.ok_or_else(|| not_understood(answer).of(server))
}

fn several(answer: &Value, count: usize) -> Read<&[Value]> {
    let parts = array(answer)?;
    if parts.len() == count { Ok(parts) } else { Err(not_understood(answer)) }
}

fn as_bool(mark: &Value) -> Option<bool> {
    match mark {
        Value::Int(0) => Some(false),
        Value::Int(1) => Some(true),
        _ => None,
    }
}

pub(crate) fn rows(answer: &Value, server: &str) -> Result<Vec<QueueRow>, BackendError> {
    read_rows(answer).map_err(|refusal| refusal.of(server))
}

/// An answer to `SCAN`: the next cursor, and the keys.
pub(crate) fn scan_page(answer: &Value) -> Option<(&[u8], impl Iterator<Item = &[u8]>)> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(cursor), Value::Array(found)] = parts.as_slice() else { return None };
    let keys = found.iter().filter_map(|key| match key {
        Value::BulkString(key) => Some(key.as_slice()),
        _ => None,
    });
    Some((cursor, keys))
}

fn read_rows(answer: &Value) -> Read<Vec<QueueRow>> {
    let parts = array(answer)?;
    if let [tag, what] = parts
        && matches!(text(Some(tag)), Ok("F"))
    {
        return Err(foreign(text(Some(what))?));
    }
    let [kind, limit, rows @ ..] = parts else { return Err(not_understood(answer)) };
    let (kind, limit) = (self::kind(kind)?, number(limit)?);
    let mut rows: Vec<_> = rows.iter().map(|row| self::row(kind, limit, row)).collect::<Result<_, _>>()?;
    // The holders come in the order in which their leases end.
    rows.sort_by_key(|row: &QueueRow| (!row.admitted, row.token));
    Ok(rows)
}

fn row(kind: LockKind, limit: u32, row: &Value) -> Read<QueueRow> {
    let [role, id, token, permits, left, label] = array(row)? else { return Err(not_understood(row)) };
    let lease_left = match left {
        Value::Int(..0) => None,
        left => Some(Duration::from_millis(number(left)?)),
    };
    let role = text(Some(role))?;
    if role == "f" {
        let claim = Claim::mutex();
        return Ok(QueueRow { entry: None, claim, admitted: true, token: None, lease_left, label: None });
    }
    let entry: Option<EntryId> = text(Some(id))?.parse().ok();
    Ok(QueueRow {
        entry: Some(entry.ok_or_else(|| not_understood(row))?),
        claim: claim(kind, number(permits)?, limit).ok_or_else(|| not_understood(row))?,
        admitted: match role {
            "h" => true,
            "w" => false,
            _ => return Err(not_understood(row)),
        },
        // The token of a holder is not written yet if its value has none.
        token: if bytes(Some(token))?.is_empty() { None } else { Some(self::token(token)?) },
        lease_left,
        label: self::label(label)?,
    })
}

fn claim(kind: LockKind, permits: u32, limit: u32) -> Option<Claim> {
    match kind {
        LockKind::Mutex => Some(Claim::mutex()),
        LockKind::RwLock if permits == Claim::MAX => Some(Claim::writer()),
        LockKind::RwLock => Some(Claim::reader()),
        LockKind::Semaphore => Claim::semaphore(permits, limit).ok(),
    }
}

fn holder(who: &Value, label: &Value) -> Read<Option<Holder>> {
    match text(Some(who))? {
        "o" => Ok(Some(Holder::Ours { label: self::label(label)? })),
        "f" => Ok(Some(Holder::Foreign { expires: true })),
        "p" => Ok(Some(Holder::Foreign { expires: false })),
        "n" => Ok(None),
        _ => Err(not_understood(who)),
    }
}

/// A label follows a colon, so that a missing label and an empty one differ.
fn label(value: &Value) -> Read<Option<String>> {
    Ok(bytes(Some(value))?.strip_prefix(b":").map(shown_label))
}

fn kind(value: &Value) -> Read<LockKind> {
    match text(Some(value))? {
        "m" => Ok(LockKind::Mutex),
        "r" => Ok(LockKind::RwLock),
        "s" => Ok(LockKind::Semaphore),
        _ => Err(not_understood(value)),
    }
}

/// Tokens travel as text: Lua's numbers lose bits past 2^53.
fn token(value: &Value) -> Read<FencingToken> {
    text(Some(value))?.parse().map_err(|_| not_understood(value))
}

fn number<N: TryFrom<i64> + std::str::FromStr>(value: &Value) -> Read<N> {
    let number = match value {
        Value::Int(number) => N::try_from(*number).ok(),
        value => text(Some(value))?.parse().ok(),
    };
    number.ok_or_else(|| not_understood(value))
}

fn array(value: &Value) -> Read<&[Value]> {
    match value {
        Value::Array(parts) => Ok(parts),
        _ => Err(not_understood(value)),
    }
}

fn text(value: Option<&Value>) -> Read<&str> {
    std::str::from_utf8(bytes(value)?).map_err(|_| not_understood(value.unwrap_or(&Value::Nil)))
}

fn bytes(value: Option<&Value>) -> Read<&[u8]> {
    match value {
        Some(Value::BulkString(bytes)) => Ok(bytes),
        Some(Value::SimpleString(text)) => Ok(text.as_bytes()),
        other => Err(not_understood(other.unwrap_or(&Value::Nil))),
    }
}

fn mismatch(found_kind: LockKind, found_limit: u32) -> Refusal {
    let message = format!("the queue is that of a {found_kind} with limit {found_limit}");
    refusal(Kind::ClaimMismatch { found_kind, found_limit }, message)
}

fn foreign(what: &str) -> Refusal {
    let what = excerpt(format_args!("{what}"));
    refusal(Kind::ForeignData, format!("the key holds a {what} that no lock of ours wrote"))
}

/// The key of a counter is quoted as `redis-cli` takes it.
fn counter_trouble(kind: Kind, key: &Value, trouble: &str) -> Read<Refusal> {
    let key = excerpt(format_args!("{}", bytes(Some(key))?.escape_ascii()));
    let message = format!("\"{key}\", from which all locks of its slot take their tokens, {trouble}");
    Ok(refusal(kind, message))
}

/// The error of one of several leases: a line as the server writes it.
fn failed(line: &str) -> Refusal {
    let line = line.trim_start_matches('-').trim_end();
    let (code, rest) = line.split_once(' ').unwrap_or((line, ""));
    refusal(kind_of_code(code, rest), excerpt(format_args!("{line}")))
}

fn not_understood(answer: &Value) -> Refusal {
    refusal(Kind::Protocol, format!("a script answered {}", excerpt(format_args!("{answer:?}"))))
}

fn refusal(kind: Kind, message: String) -> Refusal {
    Refusal { kind, message }
}

#[cfg(test)]
mod tests;
