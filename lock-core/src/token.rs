//! [`FencingToken`]: the number that makes a lock safe for what it protects.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number that grows with every grant of a name.
///
/// Send it along with what you write, and let the resource refuse a token smaller than the largest it has seen:
/// then a holder that was paused past its lease can do no harm. If one grant of a name was returned before another
/// was asked for, its token is the smaller one. Tokens of different names say nothing about each other.
///
/// A token is minted when an entry joins the queue, so it also tells one life of an entry from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Wraps a number that a store minted. Only a [`Backend`](crate::Backend) has a reason to.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, exact to the last bit. JSON and Lua lose bits past 2^53: pass it on as text there.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
