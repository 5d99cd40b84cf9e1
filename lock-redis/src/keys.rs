//! [`Keys`]: the keys of a lock on the server.
//!
//! The lock itself is stored under the prefix and the name, byte for byte, because that is where clients of other libraries
//! look. The other keys of a lock are its *companions*:
//!
//! ```text
//! prefix  0xFF  2  letter  {tag}  rest
//! ```
//!
//! The byte 0xFF occurs in no UTF-8, so a companion is never the key of a lock. `2` is the version of the stored format.
//! `{tag}` is the hash tag of Redis Cluster, chosen so that a companion always has the same slot as its lock. The counter of tokens has no
//! rest: all locks of a slot share it.

use std::sync::LazyLock;

use lock_core::{EntryId, LockName};

const VERSION: u8 = b'2';
const SLOTS: usize = 16_384;

/// The keys of one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    raw: Vec<u8>,
    prefix_len: usize,
    /// `{tag}rest`
    tail: Vec<u8>,
}

impl Keys {
    pub(crate) fn new(prefix: &str, name: &LockName) -> Self {
        let raw = [prefix.as_bytes(), name.as_str().as_bytes()].concat();
        let tail = tail(&raw);
        Self { raw, prefix_len: prefix.len(), tail }
    }

    /// The holder: a string for a mutex, a sorted set for the other kinds.
    pub(crate) fn lock(&self) -> Vec<u8> {
        self.raw.clone()
    }

    /// The waiters in their order: a sorted set.
    pub(crate) fn queue(&self) -> Vec<u8> {
        self.companion(b"q")
    }

    /// The details of each entry: a hash.
    pub(crate) fn entries(&self) -> Vec<u8> {
        self.companion(b"e")
    }

    /// The counter of tokens of all locks in the slot of this one: a stream without entries, whose last id is the last token.
    pub(crate) fn counter(&self) -> Vec<u8> {
        let prefix = &self.raw[..self.prefix_len];
        counter_of(prefix, TAGS[slot(hash_tag(&self.raw).unwrap_or(&self.raw))])
    }

    /// The tombstone of an entry that left while a create of it was in doubt: a string.
    pub(crate) fn tombstone(&self, entry: EntryId) -> Vec<u8> {
        self.companion(format!("x{entry}").as_bytes())
    }

    fn companion(&self, letter: &[u8]) -> Vec<u8> {
        let prefix = &self.raw[..self.prefix_len];
        [prefix, &[0xFF, VERSION], letter, &self.tail].concat()
    }
}

/// The counters of all slots. Most of them do not exist.
pub(crate) fn counters(prefix: &str) -> impl Iterator<Item = Vec<u8>> {
    TAGS.iter().map(move |tag| counter_of(prefix.as_bytes(), *tag))
}

fn counter_of(prefix: &[u8], tag: u32) -> Vec<u8> {
    [prefix, &[0xFF, VERSION], format!("c{{{tag}}}").as_bytes()].concat()
}

/// The key that marks that some process with this prefix may not publish. The scripts derive it from a channel.
pub(crate) fn publish_denied_mark(prefix: &str) -> Vec<u8> {
    [prefix.as_bytes(), &[0xFF, VERSION, b'm']].concat()
}

/// The name of a channel. It collides with no channel of other clients and with no key.
pub(crate) fn channel(prefix: &str, rest: &str) -> Vec<u8> {
    [prefix.as_bytes(), &[0xFF, VERSION], rest.as_bytes()].concat()
}

/// The prefix of all queues of clients with this prefix.
pub(crate) fn queue_prefix(prefix: &str) -> Vec<u8> {
    [prefix.as_bytes(), &[0xFF, VERSION, b'q', b'{']].concat()
}

/// The name of the lock that a key belongs to: its own key, or its queue. `None` for any other key.
pub(crate) fn name_of(prefix: &str, key: &[u8]) -> Option<LockName> {
    let raw = match key.strip_prefix(&*queue_prefix(prefix)) {
        Some(tail) => {
            let end = tail.iter().position(|&b| b == b'}')?;
            let (tag, rest) = (&tail[..end], &tail[end + 1..]);
            if rest.is_empty() { tag } else { rest }
        }
        None => key,
    };
    let name = std::str::from_utf8(raw.strip_prefix(prefix.as_bytes())?).ok()?;
    LockName::new(name).ok()
}

/// A pattern for `SCAN` that matches all that starts with `start`, and nothing else.
pub(crate) fn starting_with(start: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(start.len() + 1);
    for &byte in start {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^') {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

/// `{tag}rest` such that the tag has the slot of `raw`, and `raw` can be read back: it is the rest, or else the tag.
fn tail(raw: &[u8]) -> Vec<u8> {
    match hash_tag(raw) {
        Some(tag) => [b"{", tag, b"}", raw].concat(),
        None if !raw.contains(&b'}') => [b"{", raw, b"}"].concat(),
        // `raw` contains a closing brace, so it cannot be the tag. Another tag with the same slot is used.
        None => [b"{", TAGS[slot(raw)].to_string().as_bytes(), b"}", raw].concat(),
    }
}

/// The part of a key that Redis Cluster hashes instead of all of it: what the first `{` and the next `}` enclose.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|&b| b == b'{')? + 1;
    let len = key[start..].iter().position(|&b| b == b'}')?;
    (len > 0).then(|| &key[start..start + len])
}

fn slot(tag: &[u8]) -> usize {
    slot_of(crc16(tag))
}

fn slot_of(crc: u16) -> usize {
    usize::from(crc) % SLOTS
}

/// CRC16/XMODEM, as Redis Cluster uses it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| step(crc, byte))
}

/// The checksum of some bytes and one more.
fn step(crc: u16, byte: u8) -> u16 {
    (crc << 8) ^ STEPS[usize::from((crc >> 8) ^ u16::from(byte))]
}

/// The checksum of each byte.
const STEPS: [u16; 256] = {
    let mut steps = [0; 256];
    let (mut at, mut first) = (0, 0_u16);
    while at < steps.len() {
        let (mut crc, mut bit) = (first, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        steps[at] = crc;
        at += 1;
        first = first.wrapping_add(0x0100);
    }
    steps
};

/// For each slot, the smallest number whose decimal digits hash to it.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; SLOTS];
    let mut missing = SLOTS;
    // The checksum of the digits before the last one, which ten numbers share: a process needs this table for its first lock.
    let mut stem = 0;
    // Ends: every slot has a number of at most six digits, which a test shows.
    for (number, digit) in (0_u32..).zip((b'0'..=b'9').cycle()) {
        if digit == b'0' && number > 0 {
            stem = crc16((number / 10).to_string().as_bytes());
        }
        let tag = &mut tags[slot_of(step(stem, digit))];
        if tag.is_none() {
            *tag = Some(number);
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    tags.into_iter().flatten().collect()
});

#[cfg(any(test, fuzzing))]
pub(crate) mod promises;
#[cfg(test)]
mod tests;
