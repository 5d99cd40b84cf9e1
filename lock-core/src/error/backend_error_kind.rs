//! [`BackendErrorKind`]: the kinds of errors of a store, and what to do about each.

use std::{borrow::Cow, fmt};

use crate::Kind;

/// The kind of an error of a store. `Display` says what to do about it.
///
/// The kind also decides who goes on waiting. `Unreachable`, `TimedOut`, `Unavailable`, `OutOfMemory`, `ReadOnly` and `Panicked`
/// [may pass](crate::BackendError::is_transient), so an acquisition that [waits for an outage to end](crate::AcquireOptions::outage) tries again. With
/// `Denied`, only waiters that are in the queue do. With any other kind, the acquisition fails with the error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendErrorKind {
    /// No connection could be made, or the one in use broke.
    Unreachable,
    /// No answer within the time limit for a command or for connecting.
    TimedOut,
    /// The store answers, but is not ready: starting, failing over, too busy.
    Unavailable,
    /// The store has no memory or space left.
    OutOfMemory,
    /// The store takes no writes.
    ReadOnly,
    /// The credentials are wrong, or do not permit it.
    Denied,
    /// The name is in use with another kind or limit.
    ClaimMismatch {
        /// The kind that the name has now.
        found_kind: Kind,
        /// The limit that the name has now.
        found_limit: u32,
    },
    /// The name holds data of another program, of a type that no lock has.
    ForeignData,
    /// The next fencing token would not fit its counter.
    TokensExhausted,
    /// The store lacks a feature that is needed, for example because its version is too old.
    Unsupported,
    /// The server cannot keep locks, such as a replica or a node of a cluster. The text says what it is, and after `; ` what to use
    /// instead.
    WrongServer(&'static str),
    /// The answer was not understood.
    Protocol,
    /// The backend panicked: a bug in it.
    Panicked,
    /// The process is a fork of the one that connected. The store is not asked: this comes from `lock-core`, and from no backend.
    Forked,
}

impl BackendErrorKind {
    /// What is wrong, and what to do about it. The advice is empty if there is none.
    pub(super) fn parts(&self) -> (Cow<'static, str>, &'static str) {
        let (trouble, advice) = match self {
            Self::Unreachable => ("the store cannot be reached", "check its address, and that it runs"),
            Self::TimedOut => ("the store did not answer in time", "check its load and the network"),
            Self::Unavailable => ("the store is not ready", "try again"),
            Self::OutOfMemory => ("the store is out of memory or space", "free some, or raise its limit"),
            Self::ReadOnly => ("the store takes no writes", "connect to the one that does"),
            Self::Denied => ("the store denies it", "check the credentials and their permissions"),
            Self::ClaimMismatch { found_kind, found_limit } => {
                let trouble = format!("the name is in use as a {found_kind} with limit {found_limit}");
                return (trouble.into(), "use another name");
            }
            Self::ForeignData => ("the name holds data that is not a lock", "use another name or prefix"),
            Self::TokensExhausted => ("the name has no fencing tokens left", "use another name"),
            Self::Unsupported => {
                ("the store lacks something that is needed", "check its version and its settings")
            }
            Self::WrongServer(said) => said.split_once("; ").unwrap_or((*said, "")),
            Self::Protocol => ("the answer of the store was not understood", "check what else writes there"),
            Self::Panicked => ("the backend panicked", "this is a bug in it"),
            Self::Forked => {
                ("this process was forked from the one that connected", "connect again in the child")
            }
        };
        (trouble.into(), advice)
    }
}

/// `trouble; advice`.
impl fmt::Display for BackendErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trouble, advice) = self.parts();
        f.write_str(&trouble)?;
        if advice.is_empty() { Ok(()) } else { write!(f, "; {advice}") }
    }
}
