//! [`Error`]: why a lock could not be taken, kept or given back.

mod backend_error;
mod backend_error_kind;
mod input_error;

use std::{fmt, time::Duration};

pub use self::{backend_error::BackendError, backend_error_kind::BackendErrorKind, input_error::InputError};
use crate::{Claim, Holder, Kind, LockName, LostReason, NameError};

/// Why a lock could not be taken, kept or given back. Contention is not among them: `try_acquire` answers `None`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The `wait` of the options passed before the lock was granted.
    #[error("lock `{name}` was not granted within {waited:?}{}; wait longer, or see who holds it", InTheWay { ahead: *ahead, holder: holder.as_ref(), here: *here, others: *others })]
    WaitTimeout {
        /// The lock.
        name: LockName,
        /// How long was waited: the `wait` of the options.
        waited: Duration,
        /// How many entries were ahead when the queue was last seen.
        ahead: Option<u64>,
        /// The holder when the lock was last seen: the first of several. If these same [`Locks`](crate::Locks) hold it, the first of their
        /// own.
        holder: Option<Holder>,
        /// Whether these same [`Locks`](crate::Locks) hold it: then the waiter may be the one that has to release it.
        here: bool,
        /// Whether others may hold it beside them: permits of a semaphore, or a read lock.
        others: bool,
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
    /// The store answered, but each time after the lease that was asked for had ended.
    #[error("lock `{name}` is granted more slowly than its ttl of {ttl:?} lasts; use a longer ttl")]
    TooSlow {
        /// The lock.
        name: LockName,
        /// The ttl that is too short: the ttl of the options, or their [`waiting_ttl`](crate::AcquireOptions::waiting_ttl).
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
    #[error("lock `{name}`: {}", source.explained())]
    Backend {
        /// The lock.
        name: LockName,
        /// What the store said.
        source: BackendError,
    },
    /// An argument is not allowed.
    #[error(transparent)]
    Input(#[from] InputError),
    /// [`Locks::close`](crate::Locks::close) was called.
    #[error("lock `{name}` cannot be taken: its `Locks` is closed")]
    Closed {
        /// The lock.
        name: LockName,
    },
    /// The keeper's thread has ended by a panic, which is logged: nothing would renew the lock.
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
    /// Whether the same call may succeed later, with nothing changed but time. A loss is, if the work was stopped; otherwise the work may
    /// be finished, and would be repeated.
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
            BackendErrorKind::Forked => Self::Forked { name },
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

/// What is known of the entries ahead of a waiter.
struct InTheWay<'a> {
    ahead: Option<u64>,
    holder: Option<&'a Holder>,
    here: bool,
    others: bool,
}

impl fmt::Display for InTheWay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ahead) = self.ahead {
            write!(f, " ({ahead} ahead)")?;
        }
        match (self.here, self.holder) {
            (true, Some(holder)) if self.others => {
                write!(f, ", held by this process ({holder}), and maybe by others")
            }
            (true, Some(holder)) => write!(f, ", held by this process: {holder}"),
            (true, None) if self.others => f.write_str(", held by this process, and maybe by others"),
            (true, None) => f.write_str(", held by this process"),
            (false, Some(holder)) => write!(f, ", held by {holder}"),
            (false, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

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
            others: false,
        };
        assert_eq!(
            timeout.to_string(),
            "lock `job/7` was not granted within 5s (2 ahead), held by `web-1`; wait longer, or see who holds it"
        );
        let kind = BackendErrorKind::ClaimMismatch { found_kind: Kind::Semaphore, found_limit: 8 };
        let found = BackendError::new("redis", kind, "h:1: the queue is that of a semaphore");
        let other = Error::from_backend(&name, Claim::semaphore(1, 3).unwrap(), found);
        assert_eq!(
            other.to_string(),
            "lock `job/7` is in use as a semaphore with limit 8, and 1 of 3 permits of a semaphore cannot be taken beside it; use another name, or the same kind and limit everywhere"
        );
        assert!(!other.is_transient());
        let down = BackendError::new("redis", BackendErrorKind::Unreachable, "connecting to h:1: refused");
        let down = Error::from_backend(&name, Claim::mutex(), down);
        assert_eq!(
            down.to_string(),
            "lock `job/7`: the store cannot be reached (redis: connecting to h:1: refused); check its address, and that it runs"
        );
        assert_eq!(down.source().unwrap().to_string(), "redis: connecting to h:1: refused");
        assert!(down.is_transient());
    }
}
