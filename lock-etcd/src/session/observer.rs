//! [`SessionObserver`]: who is told of sessions.

use std::sync::Arc;

use super::member::Session;

/// Told when shared sessions begin and end.
pub(crate) trait SessionObserver: Send + Sync {
    /// A session was opened.
    fn opened(&self, session: &Arc<Session>);

    /// A session is over, and with it all that it kept alive.
    fn ended(&self, session: &Session);
}
