//! Lets the session pool open sessions and remove entries.

use std::{sync::Arc, time::Duration};

use lock_core::{
    BackendErrorKind as Kind,
    session_pool::{SessionOwner, SessionPool},
};

use super::{member::Member, open::open_shared, pool::Pool, session::Session, task};
use crate::error::Failure;

impl SessionOwner for Pool {
    fn sessions(&self) -> &SessionPool<Self> {
        &self.sessions
    }

    async fn open(self: &Arc<Self>, class: Duration) -> Result<Arc<Session>, Failure> {
        open_shared(self, class).await
    }

    fn opened(self: &Arc<Self>, session: Arc<Session>, class: Duration) {
        self.observer.opened(&session);
        task::start(self, session, class);
    }

    async fn remove_member(&self, member: &Arc<Member>) -> Result<bool, Failure> {
        self.remove_entry(member, false).await
    }

    fn failure(kind: Kind, message: &'static str) -> Failure {
        Failure::new(kind, message).unsent()
    }
}
