//! [`Keys`]: the keys of a lock on the server.
//!
//! The lock itself is stored under the prefix and the name, byte for byte, because that is where clients of other libraries
//! look. The other keys of a lock are its *companions*:
//!
//! ```text
//! prefix  0xFF  1  letter  {tag}  rest
//! ```
//!
//! The byte 0xFF occurs in no UTF-8, so a companion is never the key of a lock. `1` is the version of the stored format.
//! `{tag}` is the hash tag of Redis Cluster, chosen so that a companion always has the same slot as its lock.

use std::sync::LazyLock;

use lock_core::{EntryId, LockName};

const VERSION: u8 = b'1';
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

    /// The last token: a string.
    pub(crate) fn tokens(&self) -> Vec<u8> {
        self.companion(b"t")
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
    usize::from(crc16(tag)) % SLOTS
}

/// CRC16/XMODEM, as Redis Cluster uses it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// For each slot, the smallest number whose decimal digits hash to it.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; SLOTS];
    let mut missing = SLOTS;
    // Ends: every slot has a number of at most six digits, which a test shows.
    for number in 0_u32.. {
        let tag = &mut tags[slot(number.to_string().as_bytes())];
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
