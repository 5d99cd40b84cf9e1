//! [`SessionObserver`]: who is told of sessions.

use std::sync::Arc;

use lock_core::EntryId;

use super::session::Session;

/// Told when shared sessions begin and end.
pub(crate) trait SessionObserver: Send + Sync {
    /// A session was opened.
    fn opened(&self, session: &Arc<Session>);

    /// A session is over, and with it these entries, which it kept alive.
    fn ended(&self, session: &Session, entries: &[EntryId]);
}
