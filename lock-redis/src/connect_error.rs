//! [`ConnectError`]: why connecting failed.

use lock_core::{BackendError, settings::ConfigError};

/// Why [`Redis::connect`](crate::Redis::connect) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server cannot be used.
    #[error("{}", .0.explained())]
    Store(#[source] BackendError),
}
