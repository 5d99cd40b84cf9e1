//! How a connection to an [`Endpoint`] is opened.

use std::{future::Future, io, pin::pin, sync::atomic::Ordering, time::Duration};

use futures_util::future::{Either, select, select_ok};
use lock_core::{BackendErrorKind as Kind, Keeper};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::{endpoint::Endpoint, handshake, socket::Socket, tls_probe};
use crate::{
    config::tls::Tls,
    error::{Failure, WITH_TLS, WITHOUT_TLS},
};

/// If a server has not answered the TLS handshake after this time, a probe finds out whether it speaks TLS at all.
const TLS_PROBE_AFTER: Duration = Duration::from_millis(100);

impl Endpoint {
    /// Opens a connection on the current runtime: authenticated, in its database, with its name. The caller bounds the
    /// time.
    pub(crate) async fn open(&self, keeper: &Keeper) -> Result<Socket, Failure> {
        let mut socket = match &self.tls {
            Some(tls) => Socket::tls(self.start_tls(tls, keeper).await?),
            None => Socket::plain(self.connect().await?),
        };
        let greeted = handshake::greet(&mut socket, self).await;
        if let Err(failure) = greeted {
            drop(socket);
            return Err(self.explain_greeting_failure(failure, keeper).await);
        }
        self.was_reached.store(true, Ordering::Relaxed);
        Ok(socket)
    }

    /// Like [`open`](Self::open), through the circuit breaker: while the server is away, all callers share one attempt.
    pub(crate) async fn open_in_turn(&self, keeper: &Keeper) -> Result<Socket, Failure> {
        // Boxed because TLS makes the future large.
        self.breaker.attempt(keeper, Box::pin(self.open(keeper))).await
    }

    /// A server without TLS takes the handshake for the start of a command and waits for the rest, while the client waits for the server.
    /// So a server that does not answer soon is probed while the handshake continues.
    async fn start_tls(&self, tls: &Tls, keeper: &Keeper) -> Result<TlsStream<TcpStream>, Failure> {
        let socket = self.connect().await?;
        let mut handshake = pin!(tls.connector.connect(tls.server.clone(), socket));
        let prompt = if self.port_may_be_wrong() {
            keeper.timeout_at(keeper.now() + TLS_PROBE_AFTER, handshake.as_mut()).await
        } else {
            Some(handshake.as_mut().await)
        };
        let shaken = if let Some(shaken) = prompt {
            shaken
        } else {
            let probe = pin!(self.answers_without_tls(keeper));
            let first = select(handshake.as_mut(), probe).await;
            match first {
                Either::Left((shaken, _)) => shaken,
                Either::Right((true, _)) => return Err(self.without_tls_failure()),
                Either::Right((false, handshake)) => handshake.await,
            }
        };
        match shaken {
            Ok(socket) => Ok(socket),
            Err(error) => Err(self.explain_tls_failure(error, keeper).await),
        }
    }

    /// The error of a handshake that failed.
    async fn explain_tls_failure(&self, error: io::Error, keeper: &Keeper) -> Failure {
        let failure = Failure::io(&format!("starting tls with {}", self.address), error);
        // If one side does not trust the other, both speak TLS.
        let may_probe = self.port_may_be_wrong() && *failure.kind() != Kind::Denied;
        if may_probe && self.answers_without_tls(keeper).await { self.without_tls_failure() } else { failure }
    }

    /// The error of a greeting that failed: a TLS server answers it with an alert, or not at all.
    async fn explain_greeting_failure(&self, failure: Failure, keeper: &Keeper) -> Failure {
        let may_probe = self.tls.is_none() && self.port_may_be_wrong() && failure.is_unanswered();
        let probe = async { tls_probe::is_tls(self.connect_tcp().await?, &self.config.host).await };
        if may_probe && self.is_confirmed(keeper, probe).await {
            return Failure::new(Kind::WrongServer(WITH_TLS), format!("{} answers with tls", self.address));
        }
        failure
    }

    async fn answers_without_tls(&self, keeper: &Keeper) -> bool {
        let probe = async { tls_probe::is_plain(self.connect_tcp().await?).await };
        self.is_confirmed(keeper, probe).await
    }

    /// Whether the probe says yes in time.
    async fn is_confirmed(
        &self,
        keeper: &Keeper,
        probe: impl Future<Output = io::Result<bool>> + Send,
    ) -> bool {
        let until = keeper.now() + self.config.server.connect_timeout / 2;
        keeper.timeout_at(until, probe).await.is_some_and(|answer| answer.unwrap_or(false))
    }

    fn without_tls_failure(&self) -> Failure {
        Failure::new(Kind::WrongServer(WITHOUT_TLS), format!("{} answers without tls", self.address))
    }

    /// Whether the configured port may be wrong. While the server is away, only the first attempt probes for that: otherwise each attempt
    /// would open two connections.
    fn port_may_be_wrong(&self) -> bool {
        !self.was_reached.load(Ordering::Relaxed) && self.breaker.retry_at().is_none()
    }

    async fn connect(&self) -> Result<TcpStream, Failure> {
        let socket = self.connect_tcp().await;
        socket.map_err(|error| Failure::io(&format!("connecting to {}", self.address), error))
    }

    /// Connects to the address of the host that answers first: an address that drops all packets must not delay the others.
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
