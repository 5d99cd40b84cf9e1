//! [`Keys`]: the keys of a lock in etcd.
//!
//! ```text
//! prefix q1/ name / claim / permits / lease / number    an entry: its id and label; under the lease in the key
//! prefix s1/ lease                                      a session, under its own lease
//! prefix s1/ lease / number                             a tombstone of one of its members, under the same lease
//! prefix e1                                             the entry that was evicted last
//! ```
//!
//! `1` is the version of the stored format. The claim, with kind and limit, comes before the lease, so that one compare over
//! a range finds every entry with another claim (PR07). Permits and lease are part of the key, so that a look needs no values
//! (PR16, PR26). The number is small and belongs to one entry at a time (b07), and is then reused. If it were the
//! entry's id, every entry would leave a trace in etcd's index until the index is compacted, and every compare over the queue
//! would pass over all of them. In a name, `%`, `/` and unprintable characters are escaped: so no name is a prefix
//! of another one's keys (H77), and short names stay readable.

use std::{borrow::Cow, fmt::Write};

use lock_core::{Claim, Entry, EntryId, Kind, LockName, shown_label};

/// Precedes the queues, after the prefix.
const QUEUES: &str = "q1/";

/// Room for 16 digits, four slashes, and a number that is appended.
const ROOM_FOR_LEASE: usize = 24;

/// Room for a slash and a number below a thousand.
const ROOM_FOR_TOMBSTONE: usize = 4;

/// The keys of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The start of all keys of the lock, up to and including the `/` after the name.
    queue: String,
}

/// A range of keys as in etcd: it includes the first key and excludes the second.
pub(crate) type Range = (Vec<u8>, Vec<u8>);

/// The parts of the key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryKey {
    pub(crate) claim: Claim,
    pub(crate) lease: i64,
    pub(crate) number: u32,
}

impl Keys {
    pub(crate) fn new(prefix: &str, name: &LockName) -> Self {
        let name = name.as_str();
        // With the full capacity at once, because growing strings would be a noticeable cost of a short lock.
        let mut queue = String::with_capacity(prefix.len() + QUEUES.len() + name.len() + 1);
        queue.push_str(prefix);
        queue.push_str(QUEUES);
        encode(name, &mut queue);
        queue.push('/');
        Self { queue }
    }

    /// All keys of this lock.
    pub(crate) fn all(&self) -> Range {
        children(&self.queue)
    }

    /// All entries with this claim's kind and limit.
    pub(crate) fn agreeing(&self, claim: Claim) -> Range {
        children(&format!("{}{}/", self.queue, kind(claim)))
    }

    /// All entries with another kind or limit: the keys before those of agreeing entries, and the keys after them.
    pub(crate) fn disagreeing(&self, claim: Claim) -> [Range; 2] {
        let ((first, last), (from, to)) = (self.all(), self.agreeing(claim));
        [(first, from), (to, last)]
    }

    /// The writers of a read-write lock.
    pub(crate) fn writers(&self) -> Range {
        children(&format!("{}{}/w/", self.queue, kind(Claim::writer())))
    }

    /// The start of the keys of entries with this claim under this lease. A number follows.
    pub(crate) fn entry_prefix(&self, claim: Claim, lease: i64) -> String {
        let (kind, permits) = (kind(claim), permits(claim));
        let mut prefix =
            String::with_capacity(self.queue.len() + kind.len() + permits.len() + ROOM_FOR_LEASE);
        for part in [&self.queue, &*kind, "/", &*permits, "/"] {
            prefix.push_str(part);
        }
        // Writing to a string does not fail.
        let _ = write!(prefix, "{lease:x}/");
        prefix
    }

    /// Reads a key of this lock. `None` if it is not the key of an entry.
    pub(crate) fn read_entry(&self, key: &[u8]) -> Option<EntryKey> {
        read_key(std::str::from_utf8(key).ok()?.strip_prefix(&self.queue)?)
    }
}

/// The key of a session.
pub(crate) fn session(prefix: &str, lease: i64) -> Vec<u8> {
    format!("{prefix}s1/{lease:x}").into_bytes()
}

/// The key of a tombstone of the session that has this key.
pub(crate) fn tombstone(session: &[u8], number: u32) -> Vec<u8> {
    use std::io::Write;

    let mut key = Vec::with_capacity(session.len() + ROOM_FOR_TOMBSTONE);
    key.extend_from_slice(session);
    // Writing to a vector does not fail.
    let _ = write!(key, "/{number}");
    key
}

/// The key that all clients watch to learn of evictions.
pub(crate) fn evictions(prefix: &str) -> Vec<u8> {
    format!("{prefix}e1").into_bytes()
}

/// The queues of all names that start with `start`.
pub(crate) fn starting_with(prefix: &str, start: &str) -> Range {
    let mut from = queues(prefix);
    encode(start, &mut from);
    let mut to = from.clone().into_bytes();
    // This always finds a byte below 0xFF, because `q1/` precedes `start`.
    while let Some(last) = to.pop() {
        if last < 0xFF {
            to.push(last + 1);
            break;
        }
    }
    (from.into_bytes(), to)
}

/// The name of the lock that an entry's key belongs to. `None` for any other key.
pub(crate) fn name_of(prefix: &str, key: &[u8]) -> Option<LockName> {
    let (name, rest) = std::str::from_utf8(key).ok()?.strip_prefix(&queues(prefix))?.split_once('/')?;
    read_key(rest)?;
    let decoded = decode(name)?;
    // A key that we would not have written is foreign data.
    let mut again = String::new();
    encode(&decoded, &mut again);
    if again == name { LockName::new(decoded).ok() } else { None }
}

/// Whether this is the key of an entry of any lock under the prefix.
pub(crate) fn is_entry(prefix: &str, key: &[u8]) -> bool {
    name_of(prefix, key).is_some()
}

/// The value under the key of an entry.
pub(crate) fn value(entry: &Entry) -> String {
    match &entry.label {
        None => entry.id.to_string(),
        Some(label) => format!("{}:{label}", entry.id),
    }
}

/// Reads the id and the label of an entry from its value. `None` if we did not write the value.
pub(crate) fn read_value(value: &[u8]) -> Option<(EntryId, Option<String>)> {
    let value = std::str::from_utf8(value).ok()?;
    let (id, label) = value.split_once(':').map_or((value, None), |(id, label)| (id, Some(label)));
    Some((id.parse().ok()?, label.map(|label| shown_label(label.as_bytes()))))
}

fn queues(prefix: &str) -> String {
    format!("{prefix}{QUEUES}")
}

/// All keys that begin with a parent that ends in `/`: `0` is the character after `/`.
fn children(parent: &str) -> Range {
    let mut end = parent.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (parent.as_bytes().to_vec(), end)
}

fn kind(claim: Claim) -> Cow<'static, str> {
    match claim.kind() {
        Kind::Mutex => "m".into(),
        Kind::RwLock => "r".into(),
        Kind::Semaphore => format!("s{}", claim.limit()).into(),
    }
}

fn permits(claim: Claim) -> Cow<'static, str> {
    match claim.permits() {
        1 => "1".into(),
        _ if claim == Claim::writer() => "w".into(),
        permits => permits.to_string().into(),
    }
}

fn read_key(rest: &str) -> Option<EntryKey> {
    let mut parts = rest.split('/');
    let (kind, permits) = (parts.next()?, parts.next()?);
    let claim = match (kind, permits) {
        ("m", "1") => Claim::mutex(),
        ("r", "1") => Claim::reader(),
        ("r", "w") => Claim::writer(),
        _ => Claim::semaphore(number(permits)?, number(kind.strip_prefix('s')?)?).ok()?,
    };
    let lease = parts.next()?;
    let lease =
        i64::from_str_radix(lease, 16).ok().filter(|number| *number > 0 && format!("{number:x}") == lease)?;
    let number = number(parts.next()?)?;
    parts.next().is_none().then_some(EntryKey { claim, lease, number })
}

/// Only a number in the form in which it is written, so that each key has one meaning, and each meaning one key.
fn number(text: &str) -> Option<u32> {
    text.parse::<u32>().ok().filter(|number| number.to_string() == text)
}

fn encode(name: &str, into: &mut String) {
    let is_plain = |byte: u8| !matches!(byte, b'%' | b'/') && !byte.is_ascii_control();
    if name.bytes().all(is_plain) {
        return into.push_str(name);
    }
    for c in name.chars() {
        if matches!(c, '%' | '/') || c.is_ascii_control() {
            // Writing to a string does not fail.
            let _ = write!(into, "%{:02X}", u32::from(c));
        } else {
            into.push(c);
        }
    }
}

fn decode(text: &str) -> Option<String> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests;
