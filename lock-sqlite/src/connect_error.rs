//! [`ConnectError`]: why a backend could not be made.

use lock_core::{BackendError, settings::ConfigError};

/// Why [`Sqlite::connect`](crate::Sqlite::connect) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file cannot be used.
    #[error("{}", .0.explained())]
    Store(#[source] BackendError),
}
