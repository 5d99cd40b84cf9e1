//! [`Framing`]: what a relay has to know of a protocol.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use tokio::net::TcpStream;

use super::traffic::Traffic;

/// How requests and answers are told apart on the connections of a store's clients.
///
/// Where both are frames in a stream of bytes, say so with [`Framed`](super::Framed), which does all the rest. What is more
/// than that, as HTTP/2 with its many streams, serves a connection itself.
#[async_trait]
pub trait Framing: fmt::Debug + Send + Sync + 'static {
    /// Passes on what a client and the server say to each other, until one of them ends the connection:
    ///
    /// * every request is counted by [`Traffic::asked`] when it is passed on;
    /// * if [`Traffic::doubles`], then before its answer is passed on it is sent once more beside this connection, within
    ///   [`Traffic::double`], which ends when the second answer is there, and in full;
    /// * every answer has to pass its [`Traffic::gate`], and nothing waits with it that may overtake it on a real wire;
    /// * every hint is counted by [`Traffic::hint`] when it comes.
    ///
    /// # Errors
    /// Whatever ends the connection.
    async fn serve(&self, client: TcpStream, server: SocketAddr, traffic: Arc<Traffic>) -> io::Result<()>;
}
