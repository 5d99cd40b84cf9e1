//! [`BackendErrorKind`]: what sort of trouble a store is in.

use std::fmt;

use crate::Kind;

/// What sort of trouble a store is in. `Display` says what to do about it.
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
    /// Under the name is data of somebody else, of a type that no lock has.
    ForeignData,
    /// The next fencing token would not fit its counter.
    TokensExhausted,
    /// The store lacks something that is needed, as an old version does.
    Unsupported,
    /// The server is none that can keep locks, as a replica or a node of a cluster. What it is, and what to use instead.
    WrongServer(&'static str),
    /// The answer was not understood.
    Protocol,
    /// The backend panicked: a bug in it.
    Panicked,
}

impl fmt::Display for BackendErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => {
                f.write_str("the store cannot be reached; check its address, and that it runs")
            }
            Self::TimedOut => f.write_str("the store did not answer in time; check its load and the network"),
            Self::Unavailable => f.write_str("the store is not ready; try again"),
            Self::OutOfMemory => f.write_str("the store is out of memory; free some, or raise its limit"),
            Self::ReadOnly => f.write_str("the store takes no writes; connect to the one that does"),
            Self::Denied => f.write_str("the store denies it; check the credentials and their permissions"),
            Self::ClaimMismatch { found_kind, found_limit } => {
                write!(f, "the name is in use as a {found_kind} with limit {found_limit}; use another name")
            }
            Self::ForeignData => {
                f.write_str("the name holds data that is not a lock; use another name or prefix")
            }
            Self::TokensExhausted => f.write_str("the name has no fencing tokens left; use another name"),
            Self::Unsupported => f.write_str("the store lacks something that is needed; check its version"),
            Self::WrongServer(instead) => f.write_str(instead),
            Self::Protocol => {
                f.write_str("the answer of the store was not understood; check what else writes there")
            }
            Self::Panicked => f.write_str("the backend panicked; this is a bug in it"),
        }
    }
}
