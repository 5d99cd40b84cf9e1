//! [`Endpoint`]: a server, and how a connection to it is opened.

use std::{io, sync::Arc};

use futures_util::future::select_ok;
use lock_core::{CircuitBreaker, Keeper, settings::Password};
use tokio::net::TcpStream;

use super::{handshake, socket::Socket};
use crate::{ConfigError, RedisConfig, config::tls::Tls, error::Failure};

/// A server, with all that was read from files for it.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) config: Arc<RedisConfig>,
    /// `host:port`, for messages.
    pub(crate) address: String,
    /// From the configuration, or from its file.
    pub(crate) password: Option<Password>,
    tls: Option<Tls>,
    /// For connections of all kinds: each of them shows whether the server is there.
    breaker: CircuitBreaker<Failure>,
}

impl Endpoint {
    /// Checks the configuration and reads its files. Opens no connection.
    pub(crate) fn new(config: Arc<RedisConfig>) -> Result<Self, ConfigError> {
        config.validate()?;
        let (password, tls) = (config.login().read()?, Tls::load(&config)?);
        // So a connection that waited for its turn has as much time left for the attempt.
        let breaker =
            CircuitBreaker::new(Failure::is_of_connection).with_longest_pause(config.connect_timeout / 2);
        Ok(Self { address: config.address(), config, password, tls, breaker })
    }

    /// Opens a connection on the current runtime: authenticated, in its database, with its name. The caller bounds the
    /// time.
    pub(crate) async fn open(&self) -> Result<Socket, Failure> {
        let mut socket = self.connect().await?;
        handshake::greet(&mut socket, self).await?;
        Ok(socket)
    }

    /// The same when it is its turn: while the server is away, one attempt is made for all who want a connection.
    pub(crate) async fn open_in_turn(&self, keeper: &Keeper) -> Result<Socket, Failure> {
        self.breaker.attempt(keeper, self.open()).await
    }

    async fn connect(&self) -> Result<Socket, Failure> {
        let socket = self.connect_tcp().await;
        let socket =
            socket.map_err(|error| Failure::io(&format!("connecting to {}", self.address), error))?;
        let Some(Tls { connector, server }) = &self.tls else { return Ok(Socket::plain(socket)) };
        let socket = connector.connect(server.clone(), socket).await;
        let socket =
            socket.map_err(|error| Failure::io(&format!("starting tls with {}", self.address), error))?;
        Ok(Socket::tls(socket))
    }

    /// To whichever address of the host answers first: one that swallows everything must not cost the others' time.
    async fn connect_tcp(&self) -> io::Result<TcpStream> {
        let addresses = tokio::net::lookup_host((self.config.host.as_str(), self.config.port)).await?;
        let attempts: Vec<_> = addresses.map(|address| Box::pin(TcpStream::connect(address))).collect();
        if attempts.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
        }
        let (socket, _) = select_ok(attempts).await?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }
}
