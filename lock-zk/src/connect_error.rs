//! [`ConnectError`]: why connecting failed.

use lock_core::{BackendError, settings::ConfigError};

/// Why [`ZooKeeper::connect`](crate::ZooKeeper::connect) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ensemble cannot be used.
    #[error("{}", .0.explained())]
    Store(#[source] BackendError),
}
