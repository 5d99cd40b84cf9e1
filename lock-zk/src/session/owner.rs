//! Lets the session pool open sessions and remove entries.

use std::{sync::Arc, time::Duration};

use lock_core::{
    BackendErrorKind as Kind,
    session_pool::{SessionOwner, SessionPool},
};

use super::{evictions, member::Member, open::open, pool::Pool, session::Session, task};
use crate::error::Failure;

impl SessionOwner for Pool {
    fn sessions(&self) -> &SessionPool<Self> {
        &self.sessions
    }

    async fn open(self: &Arc<Self>, class: Duration) -> Result<Arc<Session>, Failure> {
        // If this fails, no entry was created in any queue, so the failure is *unsent* for the entry.
        open(self, class).await.map_err(Failure::unsent)
    }

    fn opened(self: &Arc<Self>, session: Arc<Session>, class: Duration) {
        task::start(self, Arc::clone(&session), class);
        evictions::start(self, &session);
    }

    async fn remove_member(&self, member: &Arc<Member>) -> Result<bool, Failure> {
        self.remove_entry(member).await
    }

    fn failure(kind: Kind, message: &'static str) -> Failure {
        Failure::new(kind, message).unsent()
    }
}
