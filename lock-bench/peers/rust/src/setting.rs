//! [`Setting`]: what a library is told of its store.

use std::time::Duration;

/// The settings of a library.
pub(crate) struct Setting {
    /// `host:port`.
    pub(crate) address: String,
    /// Of a lock, or a session.
    pub(crate) ttl: Duration,
}
