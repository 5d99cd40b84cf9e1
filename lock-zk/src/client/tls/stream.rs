//! [`Stream`]: a connection of our own to a server.

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection of our own to a server.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
