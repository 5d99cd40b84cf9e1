//! [`Framing`]: what a relay has to know about a protocol.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use tokio::net::TcpStream;

use super::traffic::Traffic;

/// Separates requests and answers on the connections of a store's clients.
///
/// If both are frames in a stream of bytes, use [`Framed`](super::Framed), which does the rest. A protocol with more structure, such as
/// HTTP/2 with its streams, implements this trait.
#[async_trait]
pub trait Framing: fmt::Debug + Send + Sync + 'static {
    /// Forwards what a client and the server send, until one of them ends the connection:
    ///
    /// * every request is counted by [`Traffic::asked`] when it is forwarded;
    /// * if [`Traffic::doubles`], the request is sent once more on another connection before its answer is forwarded, inside
    ///   [`Traffic::double`], which ends when the second answer is complete;
    /// * every answer has to pass its [`Traffic::gate`], and what may overtake it on a real wire does not wait with it;
    /// * every hint is counted by [`Traffic::hint`] when it arrives.
    ///
    /// # Errors
    /// What ended the connection.
    async fn serve(&self, client: TcpStream, server: SocketAddr, traffic: Arc<Traffic>) -> io::Result<()>;
}
