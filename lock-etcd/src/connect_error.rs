//! [`ConnectError`]: why there is no backend.

use lock_core::BackendError;

use crate::ConfigError;

/// Why [`Etcd::connect`](crate::Etcd::connect) failed.
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
