//! [`HoldState`] and [`LostReason`]: what is known about a lock that was granted.

use std::fmt;

/// What a guard knows about its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// The last renewal succeeded, and the deadline is ahead.
    Held,
    /// A renewal failed; the deadline is still ahead, and the lock is still held. The next renewal may mend it.
    Suspect,
    /// The lock is lost, for good.
    Lost(LostReason),
    /// The lock was released.
    Released,
}

impl HoldState {
    pub(crate) fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Suspect)
    }
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// Its deadline passed before the lease was proved alive again.
    Expired,
    /// The store says that the entry is gone: it expired there, or was evicted.
    Gone,
    /// It was held for `max_hold`.
    MaxHold,
    /// This process is a fork of the one that holds it.
    Forked,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease could not be renewed before its deadline",
            Self::Gone => "the store says that it is gone",
            Self::MaxHold => "it was held for max_hold",
            Self::Forked => "this process is a fork of the one that holds it",
        })
    }
}
