//! [`Error`], what a user gets, and [`BackendError`], what a store says.

use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use crate::{Claim, Holder, Kind, LockName, LostReason, NameError};

/// Why a lock could not be taken, kept or given back. Contention is not among them: `try_acquire` answers `None`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The `wait` of the options passed before the lock was granted.
    #[error("lock `{name}` was not granted within {waited:?}{}; wait longer, or see who holds it", Queue { ahead: *ahead, here: *here, holder: holder.as_ref() })]
    WaitTimeout {
        /// The lock.
        name: LockName,
        /// How long was waited: the `wait` of the options.
        waited: Duration,
        /// How many stood ahead when it was last seen.
        ahead: Option<u64>,
        /// Who held the lock when it was last seen.
        holder: Option<Holder>,
        /// Whether these same [`Locks`](crate::Locks) hold it: then who waits may be the one who would have to release it.
        here: bool,
    },
    /// The lock was lost, and others may have had it since.
    #[error("lock `{name}` was lost: {reason}; {}", after_loss(*stopped))]
    Lost {
        /// The lock.
        name: LockName,
        /// How it was lost.
        reason: LostReason,
        /// Whether the work under it was stopped, as [`run`](crate::DistributedLock::run) does. If not, it may be finished.
        stopped: bool,
    },
    /// Grants arrived, but each after its own lease had ended.
    #[error("lock `{name}` is granted more slowly than its ttl of {ttl:?} lasts; use a longer ttl")]
    TooSlow {
        /// The lock.
        name: LockName,
        /// The ttl that was asked for.
        ttl: Duration,
    },
    /// The name is in use as another kind of lock, or with another limit.
    #[error(
        "lock `{name}` is in use as a {found_kind} with limit {found_limit}, and {asked} cannot be taken beside it; use another name, or the same kind and limit everywhere"
    )]
    ClaimMismatch {
        /// The lock.
        name: LockName,
        /// What was asked for.
        asked: Claim,
        /// The kind that the name has now.
        found_kind: Kind,
        /// The limit that the name has now.
        found_limit: u32,
    },
    /// The store could not do it.
    #[error("lock `{name}`: {}", source.kind())]
    Backend {
        /// The lock.
        name: LockName,
        /// What the store said.
        source: BackendError,
    },
    /// Something that was given is not allowed.
    #[error(transparent)]
    Input(#[from] InputError),
    /// [`Locks::close`](crate::Locks::close) was called.
    #[error("lock `{name}` cannot be taken: its `Locks` is closed")]
    Closed {
        /// The lock.
        name: LockName,
    },
    /// The keeper's thread has ended by a panic, which its log tells: nothing would renew the lock.
    #[error(
        "lock `{name}` cannot be taken: the thread that renews has ended by a panic; connect again, and see its log"
    )]
    KeeperEnded {
        /// The lock.
        name: LockName,
    },
    /// The process is a fork of the one that connected.
    #[error(
        "lock `{name}`: this process was forked from the one that connected, and has none of its locks; connect again in the child"
    )]
    Forked {
        /// The lock.
        name: LockName,
    },
}

impl Error {
    /// Whether the same call may succeed later, with nothing changed but time. A loss is, if the work was stopped: who repeats a
    /// release repeats work that may be finished.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::WaitTimeout { .. } => true,
            Self::Lost { stopped, .. } => *stopped,
            Self::Backend { source, .. } => source.is_transient(),
            _ => false,
        }
    }

    pub(crate) fn from_backend(name: &LockName, asked: Claim, source: BackendError) -> Self {
        let name = name.clone();
        match *source.kind() {
            BackendErrorKind::ClaimMismatch { found_kind, found_limit } => {
                Self::ClaimMismatch { name, asked, found_kind, found_limit }
            }
            _ => Self::Backend { name, source },
        }
    }
}

impl From<NameError> for Error {
    fn from(error: NameError) -> Self {
        Self::Input(error.into())
    }
}

fn after_loss(stopped: bool) -> &'static str {
    if stopped {
        "the work under it was stopped"
    } else {
        "others may have had it since: check the work under it before it is done again"
    }
}

/// What a waiter last saw of its queue.
struct Queue<'a> {
    ahead: Option<u64>,
    here: bool,
    holder: Option<&'a Holder>,
}

impl fmt::Display for Queue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ahead) = self.ahead {
            write!(f, " ({ahead} ahead)")?;
        }
        match (self.here, self.holder) {
            (true, Some(holder)) => write!(f, ", held by this process: {holder}"),
            (true, None) => f.write_str(", held by this process"),
            (false, Some(holder)) => write!(f, ", held by {holder}"),
            (false, None) => Ok(()),
        }
    }
}

/// A name, number, duration or text that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The limit of a semaphore.
    #[error("a semaphore cannot have {limit} permits; use 1 to {}", Claim::MAX)]
    Limit {
        /// The limit that was given.
        limit: u32,
    },
    /// A number of permits.
    #[error("{permits} of {limit} permits cannot be asked for; use 1 to {limit}")]
    Permits {
        /// The permits that were asked for.
        permits: u32,
        /// The limit of the semaphore.
        limit: u32,
    },
    /// An entry id.
    #[error("an entry id is 32 lower-case hexadecimal digits; `queue` shows those there are")]
    EntryId,
    /// A fencing token.
    #[error("a fencing token is a number from 0 to {}, in decimal digits", u64::MAX)]
    Token,
    /// A duration of the options.
    #[error("`{option}` cannot be {given:?}; use {least:?} to {most:?}")]
    Duration {
        /// The name of the option.
        option: &'static str,
        /// What was given.
        given: Duration,
        /// The least that is taken.
        least: Duration,
        /// The most that is taken.
        most: Duration,
    },
    /// A label.
    #[error("a label of {len} bytes is too long; use at most {} bytes", crate::AcquireOptions::MAX_LABEL)]
    Label {
        /// The length that was given, in bytes.
        len: usize,
    },
}

/// What a store said when it did not do what it was asked.
///
/// Unless [`is_unsent`](Self::is_unsent), the request may have been carried out all the same.
#[derive(Clone)]
pub struct BackendError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    store: &'static str,
    kind: BackendErrorKind,
    unsent: bool,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl BackendError {
    /// An error of `store` (for people: `redis`), with what it said. The message must not contain a password.
    #[must_use]
    pub fn new(store: &'static str, kind: BackendErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { store, kind, unsent: false, message: message.into(), source: None }))
    }

    /// The same error, for a request that certainly was not carried out: it never left this process, or the store says that it has
    /// undone all of it.
    #[must_use]
    pub fn unsent(mut self) -> Self {
        self.0.unsent = true;
        self
    }

    /// The same error, with the error that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// What sort of trouble it is.
    #[must_use]
    pub fn kind(&self) -> &BackendErrorKind {
        &self.0.kind
    }

    /// Whether the request certainly was not carried out: see [`unsent`](Self::unsent).
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.0.unsent
    }

    /// Whether the same request may succeed later, with nothing changed but time.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        use BackendErrorKind as Kind;
        matches!(
            self.0.kind,
            Kind::Unreachable
                | Kind::TimedOut
                | Kind::Unavailable
                | Kind::OutOfMemory
                | Kind::ReadOnly
                | Kind::Panicked
        )
    }

    /// Whether a waiter that already stands in the queue has a reason to go on: anything that somebody may mend.
    pub(crate) fn can_be_mended(&self) -> bool {
        self.is_transient() || matches!(self.0.kind, BackendErrorKind::Denied)
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.store, self.0.message)
    }
}

impl fmt::Debug for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendError")
            .field("store", &self.0.store)
            .field("kind", &self.0.kind)
            .field("unsent", &self.0.unsent)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for BackendError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_lock_and_say_what_to_do() {
        let name = LockName::new("job/7").unwrap();
        let timeout = Error::WaitTimeout {
            name: name.clone(),
            waited: Duration::from_secs(5),
            ahead: Some(2),
            holder: Some(Holder::Ours { label: Some("web-1".into()) }),
            here: false,
        };
        assert_eq!(
            timeout.to_string(),
            "lock `job/7` was not granted within 5s (2 ahead), held by `web-1`; wait longer, or see who holds it"
        );
        let down = BackendError::new("redis", BackendErrorKind::Unreachable, "connection refused");
        let down = Error::from_backend(&name, Claim::mutex(), down);
        assert!(down.to_string().starts_with("lock `job/7`: the store cannot be reached; check"));
        assert_eq!(down.source().unwrap().to_string(), "redis: connection refused");
        assert!(down.is_transient());
    }
}
