//! [`Released`]: the outcome of a release.

use std::time::Duration;

use crate::BackendError;

/// The outcome of a release that began while the lock was held.
///
/// Either way the work under the lock was protected until the release began. A lock that was lost before is
/// [`Error::Lost`](crate::Error::Lost).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Released {
    /// The lock is free.
    Confirmed,
    /// The store has not confirmed it. The keeper goes on trying, and until then the lock may be taken.
    #[non_exhaustive]
    Pending {
        /// The longest time until the store frees the lock by itself. `None` where a lease that other locks share may keep it.
        free_within: Option<Duration>,
        /// What the store said.
        cause: BackendError,
    },
}

impl Released {
    /// Turns a release that is pending into an error, for callers that need the lock to be free.
    ///
    /// # Errors
    /// What the store said.
    pub fn confirmed(self) -> Result<(), BackendError> {
        match self {
            Self::Confirmed => Ok(()),
            Self::Pending { cause, .. } => Err(cause),
        }
    }
}
