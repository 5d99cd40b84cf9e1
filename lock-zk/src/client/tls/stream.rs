//! [`Stream`]: a plain or encrypted connection to a server.

use tokio::io::{AsyncRead, AsyncWrite};

/// A plain or encrypted connection to a server, in addition to those of the ZooKeeper client.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}
