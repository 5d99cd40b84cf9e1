//! [`Setting`]: the settings of a library, for its store.

use std::time::Duration;

/// The settings of a library.
pub(crate) struct Setting {
    /// `host:port`.
    pub(crate) address: String,
    /// Of a lock, or a session.
    pub(crate) ttl: Duration,
}
