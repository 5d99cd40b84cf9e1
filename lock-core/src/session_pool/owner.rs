//! [`SessionOwner`]: what a backend does for its pool of sessions.

use std::{sync::Arc, time::Duration};

use super::{kind::SessionKind, pool::SessionPool};
use crate::BackendErrorKind;

/// A backend's part in its [`SessionPool`].
pub trait SessionOwner: SessionKind + Send + Sync {
    /// Its pool.
    fn sessions(&self) -> &SessionPool<Self>;

    /// Opens a session of this class. The keeper runs it.
    fn open(
        self: &Arc<Self>,
        class: Duration,
    ) -> impl Future<Output = Result<Arc<Self::Session>, Self::Failure>> + Send;

    /// A session was opened and is in the pool. The owner proves it alive from now on, and calls
    /// [`SessionPool::remove`] when it is over.
    fn opened(self: &Arc<Self>, session: Arc<Self::Session>, class: Duration);

    /// Removes an entry from the store, and then [forgets](SessionPool::forget) it. True if it was there.
    fn remove_member(
        &self,
        member: &Arc<Self::Member>,
    ) -> impl Future<Output = Result<bool, Self::Failure>> + Send;

    /// The failure of an entry that needs a session, and [`open`](Self::open) gave none: it panicked, or the keeper that would run it has
    /// ended. Nothing was sent for the entry.
    fn failure(kind: BackendErrorKind, message: &'static str) -> Self::Failure;
}
