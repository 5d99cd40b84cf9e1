//! [`SessionObserver`]: learns when sessions begin and end.

use std::sync::Arc;

use lock_core::EntryId;

use super::session::Session;

/// Called when shared sessions begin and end.
pub(crate) trait SessionObserver: Send + Sync {
    /// A session was opened.
    fn opened(&self, session: &Arc<Session>);

    /// A session has ended, and with it these entries, which it kept alive.
    fn ended(&self, session: &Session, entries: &[EntryId]);
}
