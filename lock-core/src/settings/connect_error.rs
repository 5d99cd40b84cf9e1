//! [`ConnectError`]: why connecting to a store failed.

use super::ConfigError;
use crate::BackendError;

/// Why a backend could not connect to its store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store cannot be used.
    #[error("{}", .0.explained())]
    Store(#[source] BackendError),
}
