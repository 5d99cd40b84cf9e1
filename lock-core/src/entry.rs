//! [`Entry`]: a row in a queue, and what it claims.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{InputError, LockName, limits::MAX_PERMITS};

/// The name of one entry: 128 random bits, fresh for every acquisition and made before the first request.
///
/// Because the client names the entry, every verb can be repeated after a lost reply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(u128);

impl EntryId {
    /// An id from 128 bits that no other client will draw.
    #[must_use]
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }
}

/// 32 lower-case hexadecimal digits.
impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntryId({self})")
    }
}

/// Exactly what `Display` writes: 32 lower-case hexadecimal digits, nothing else.
impl FromStr for EntryId {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let digits = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        match u128::from_str_radix(text, 16) {
            Ok(bits) if text.len() == 32 && text.bytes().all(digits) => Ok(Self(bits)),
            _ => Err(InputError::EntryId),
        }
    }
}

/// The kind of a lock. A name has one kind while its queue is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One holder.
    Mutex,
    /// Many readers or one writer.
    RwLock,
    /// A number of permits, of which each holder has some.
    Semaphore,
}

impl Kind {
    /// One lower-case word, for a store to keep: `mutex`, `rwlock`, `semaphore`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rwlock",
            Self::Semaphore => "semaphore",
        }
    }

    /// The kind that has this [`word`](Self::word).
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Mutex, Self::RwLock, Self::Semaphore].into_iter().find(|kind| kind.word() == word)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
            Self::RwLock => "read-write lock",
            Self::Semaphore => "semaphore",
        })
    }
}

/// What an entry asks for: a number of permits, out of a limit.
///
/// | lock | permits / limit |
/// |---|---|
/// | mutex | 1 / 1 |
/// | reader | 1 / [`Claim::MAX`] |
/// | writer | [`Claim::MAX`] / [`Claim::MAX`] |
/// | semaphore, k of n | k / n |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    kind: Kind,
    permits: u32,
    limit: u32,
}

impl Claim {
    /// The largest limit, and what a writer takes: 2^31 − 1.
    pub const MAX: u32 = MAX_PERMITS;

    /// The only permit of a mutex.
    #[must_use]
    pub const fn mutex() -> Self {
        Self { kind: Kind::Mutex, permits: 1, limit: 1 }
    }

    /// A reader of a read-write lock.
    #[must_use]
    pub const fn reader() -> Self {
        Self { kind: Kind::RwLock, permits: 1, limit: Self::MAX }
    }

    /// The writer of a read-write lock.
    #[must_use]
    pub const fn writer() -> Self {
        Self { kind: Kind::RwLock, permits: Self::MAX, limit: Self::MAX }
    }

    /// `permits` of a semaphore that has `limit` of them.
    ///
    /// # Errors
    /// [`InputError`] if `limit` is 0 or above [`Claim::MAX`], or `permits` is 0 or more than `limit`.
    pub const fn semaphore(permits: u32, limit: u32) -> Result<Self, InputError> {
        if limit == 0 || limit > Self::MAX {
            return Err(InputError::Limit { limit });
        }
        if permits == 0 || permits > limit {
            return Err(InputError::Permits { permits, limit });
        }
        Ok(Self { kind: Kind::Semaphore, permits, limit })
    }

    /// The claim that a store has kept as these three, or `None` if no lock makes such a claim.
    ///
    /// ```
    /// use lock_core::{Claim, Kind};
    ///
    /// assert_eq!(Claim::from_parts(Kind::RwLock, 1, Claim::MAX), Some(Claim::reader()));
    /// assert_eq!(Claim::from_parts(Kind::Mutex, 2, 2), None);
    /// ```
    #[must_use]
    pub fn from_parts(kind: Kind, permits: u32, limit: u32) -> Option<Self> {
        let found = Self { kind, permits, limit };
        match kind {
            Kind::Mutex => (found == Self::mutex()).then_some(found),
            Kind::RwLock => [Self::reader(), Self::writer()].contains(&found).then_some(found),
            Kind::Semaphore => Self::semaphore(permits, limit).ok(),
        }
    }

    /// The kind of lock.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// How many permits the entry asks for.
    #[must_use]
    pub const fn permits(&self) -> u32 {
        self.permits
    }

    /// How many permits there are.
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether two claims can stand in one queue: the same kind, and the same limit.
    #[must_use]
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.kind == other.kind && self.limit == other.limit
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Mutex => f.write_str("a mutex"),
            Kind::RwLock if self.permits == self.limit => f.write_str("the writer of a read-write lock"),
            Kind::RwLock => f.write_str("a reader of a read-write lock"),
            Kind::Semaphore => write!(f, "{} of {} permits of a semaphore", self.permits, self.limit),
        }
    }
}

/// A row in a queue, as the client that made it knows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// Whose queue it stands in.
    pub name: LockName,
    /// Which entry it is.
    pub id: EntryId,
    /// What it asks for.
    pub claim: Claim,
    /// How long it lives from each request that refreshes it. It becomes longer when an entry that
    /// [waited with less](crate::AcquireOptions::waiting_ttl) is to hold the lock, and never shorter.
    pub ttl: Duration,
    /// Describes the client for people: `queue` shows it, and nothing compares it.
    pub label: Option<String>,
    /// Whether its lease is renewed once it holds the lock. If not, it has to end at its ttl, so a store whose leases are
    /// shared gives it one of its own.
    pub renew: bool,
}

impl Entry {
    /// An entry without a label, whose lease is renewed.
    #[must_use]
    pub const fn new(name: LockName, id: EntryId, claim: Claim, ttl: Duration) -> Self {
        Self { name, id, claim, ttl, label: None, renew: true }
    }

    /// The same entry with a label.
    #[must_use]
    pub fn with_label(mut self, label: Option<String>) -> Self {
        self.label = label;
        self
    }

    /// The same entry, whose lease is renewed or not.
    #[must_use]
    pub fn with_renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_id_is_read_back_as_it_was_written() {
        for bits in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef] {
            let id = EntryId::new(bits);
            assert_eq!(id.to_string().parse::<EntryId>().unwrap(), id);
        }
    }

    #[test]
    fn nothing_but_thirty_two_lower_case_digits_is_an_entry_id() {
        let upper = "A".repeat(32);
        let plus = format!("+{}", "1".repeat(31));
        for text in ["", "1", &"0".repeat(31), &"0".repeat(33), &upper, &plus] {
            assert!(text.parse::<EntryId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_claim_is_put_together_again_from_what_a_store_kept_of_it() {
        for claim in [Claim::mutex(), Claim::reader(), Claim::writer(), Claim::semaphore(2, 3).unwrap()] {
            let kind = Kind::from_word(claim.kind().word()).unwrap();
            assert_eq!(Claim::from_parts(kind, claim.permits(), claim.limit()), Some(claim));
        }
        assert_eq!(Kind::from_word("Mutex"), None);
        for (kind, permits, limit) in [
            (Kind::Mutex, 1, 2),
            (Kind::Mutex, 0, 1),
            (Kind::RwLock, 2, Claim::MAX),
            (Kind::RwLock, 1, 1),
            (Kind::Semaphore, 0, 3),
            (Kind::Semaphore, 4, 3),
        ] {
            assert_eq!(Claim::from_parts(kind, permits, limit), None, "{kind}: {permits} of {limit}");
        }
    }

    #[test]
    fn permits_of_zero_or_above_the_limit_are_refused() {
        assert!(Claim::semaphore(1, 1).is_ok());
        assert!(Claim::semaphore(Claim::MAX, Claim::MAX).is_ok());
        for (permits, limit) in [(0, 1), (2, 1), (u32::MAX, u32::MAX), (1, 0), (1, Claim::MAX + 1)] {
            assert!(Claim::semaphore(permits, limit).is_err(), "{permits} of {limit}");
        }
    }
}
