//! Connections over TLS: with the feature `tls`, or none.

#[cfg(feature = "tls")]
mod with;
#[cfg(not(feature = "tls"))]
mod without;

use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(feature = "tls")]
pub(crate) use self::with::Tls;
#[cfg(not(feature = "tls"))]
pub(crate) use self::without::Tls;

/// A connection of our own to a server.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
