//! [`Ensemble`]: opens connections to its servers.

use std::{io, sync::Arc, time::Duration};

use futures_util::{
    FutureExt,
    future::{join_all, select_ok},
};
use lock_core::{
    BackendErrorKind as Kind, BootTime, CircuitBreaker, Entropy, Keeper, LogThrottle, SystemEntropy, excerpt,
    settings::{ConfigError, Password},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use zookeeper_client::{Client, Connector, Error, SessionInfo};

use super::{
    reconnecting_client::ReconnectingClient,
    session_limits::SessionLimits,
    tls::{Stream, Tls},
};
use crate::{ZkConfig, error::Failure};

/// The servers of the ensemble, and everything that connections to them need.
#[derive(Clone, Debug)]
pub(crate) struct Ensemble {
    pub(crate) config: Arc<ZkConfig>,
    password: Option<Password>,
    tls: Option<Tls>,
    keeper: Keeper,
    limits: Arc<SessionLimits>,
    breaker: Arc<CircuitBreaker<Failure>>,
    /// The log about all sessions and connections, at a limited rate.
    pub(crate) log: LogThrottle<&'static str>,
}

impl Ensemble {
    /// Reads the files that the configuration names.
    pub(crate) fn new(config: Arc<ZkConfig>, keeper: Keeper) -> Result<Self, ConfigError> {
        let (password, tls) = (config.server.read_password()?, Tls::load(&config)?);
        let limits = Arc::new(SessionLimits::new(config.endpoints.len()));
        let breaker = CircuitBreaker::new(Failure::is_of_connection)
            .with_longest_pause(config.server.connect_timeout / 2);
        let (breaker, log) = (Arc::new(breaker), LogThrottle::new(&keeper));
        Ok(Self { config, password, tls, keeper, limits, breaker, log })
    }

    /// Opens a session. This has to be polled on the keeper, on which the client's tasks run from then on.
    pub(crate) async fn open(&self, session_timeout: Duration) -> Result<Arc<ReconnectingClient>, Failure> {
        self.breaker.attempt(&self.keeper, self.open_somewhere(session_timeout)).await
    }

    /// When to repeat a failed operation: after this pause, or if no server could be reached, when the circuit breaker allows the next attempt.
    pub(crate) fn retry_at(&self, pause: Duration) -> BootTime {
        let now = self.keeper.now();
        self.breaker.retry_at().filter(|retry_at| *retry_at > now).unwrap_or(now + pause)
    }

    async fn open_somewhere(&self, session_timeout: Duration) -> Result<Arc<ReconnectingClient>, Failure> {
        let (until, alone) = (self.connect_deadline(), self.config.endpoints.len() == 1);
        let answer_limit =
            if alone { self.config.server.connect_timeout } else { self.answer_limit(session_timeout) };
        let mut opened = Err(self.unreachable());
        // One server after the other. The client itself would wait long for a server that hangs.
        for endpoint in self.endpoints_to_try(session_timeout).await {
            let limit = until.min(self.keeper.now() + answer_limit);
            opened = self.open_at(endpoint, session_timeout, limit).await;
            if !opened.as_ref().is_err_and(Failure::is_of_connection) || self.keeper.now() >= until {
                break;
            }
        }
        match opened {
            Err(failure) if self.tls.is_some() && *failure.kind() == Kind::Unreachable => {
                let refusal = self.keeper.timeout_at(until, self.tls_refusal()).await.flatten();
                Err(refusal.unwrap_or(failure))
            }
            opened => opened,
        }
    }

    /// All endpoints, beginning with one that reports that it serves.
    async fn endpoints_to_try(&self, session_timeout: Duration) -> Vec<usize> {
        let mut endpoints = self.in_any_order();
        if let Some(found) = self.find_serving(session_timeout, &endpoints).await {
            endpoints.retain(|endpoint| *endpoint != found);
            endpoints.insert(0, found);
        }
        endpoints
    }

    /// The endpoint at which to attach to a session: one that reports that it serves, or any if none does, because servers may be configured
    /// not to report it. `None` if all are known to grant less than this timeout.
    pub(crate) async fn endpoint_for(&self, session_timeout: Duration) -> Option<usize> {
        let mut endpoints = self.in_any_order();
        endpoints.retain(|endpoint| self.limits.grants(*endpoint, session_timeout) != Some(false));
        let found = self.find_serving(session_timeout, &endpoints).await;
        found.or(endpoints.first().copied())
    }

    fn in_any_order(&self) -> Vec<usize> {
        let all = self.config.endpoints.len();
        let first = SystemEntropy.bits() as usize % all;
        (first..first + all).map(|endpoint| endpoint % all).collect()
    }

    /// Opens a session at one server.
    async fn open_at(
        &self,
        endpoint: usize,
        session_timeout: Duration,
        until: BootTime,
    ) -> Result<Arc<ReconnectingClient>, Failure> {
        let connector = self.connector(session_timeout, self.answer_limit(session_timeout));
        let client = self.connect(connector, endpoint, until).await?;
        self.limits.record(endpoint, session_timeout, client.session_timeout());
        Ok(client)
    }

    /// Whether a server grants sessions of this timeout. If that is unknown, another session is opened to find out, and closed immediately.
    pub(crate) async fn grants(&self, endpoint: usize, session_timeout: Duration) -> Result<bool, Failure> {
        if let Some(known) = self.limits.grants(endpoint, session_timeout) {
            return Ok(known);
        }
        let opened = async {
            // The limit counts from when the circuit breaker lets the attempt begin, here and below.
            let until = self.keeper.now() + self.answer_limit(session_timeout);
            self.open_at(endpoint, session_timeout, until).await
        };
        let client = self.breaker.attempt(&self.keeper, opened).await?;
        Ok(client.session_timeout() >= session_timeout)
    }

    /// Attaches to an existing session, at a server that [grants](Self::grants) its timeout. With [`Error::SessionExpired`] the ensemble
    /// itself says that the session does not exist.
    pub(crate) async fn attach(
        &self,
        session_timeout: Duration,
        session: SessionInfo,
        endpoint: usize,
    ) -> Result<Arc<ReconnectingClient>, Failure> {
        let connector =
            self.connector(session_timeout, self.answer_limit(session_timeout)).with_session(session);
        let connected = async {
            let until = self.keeper.now() + self.answer_limit(session_timeout);
            self.connect(connector, endpoint, until).await
        };
        let client = self.breaker.attempt(&self.keeper, connected).await?;
        self.limits.record(endpoint, session_timeout, client.session_timeout());
        Ok(client)
    }

    /// The same for a session that is to be closed, at a server that has just answered. This has to be polled on a runtime with I/O.
    ///
    /// ### To ensure correctness
    /// Each attempt extends the session, whether or not its answer arrives (PR28). While only answers are lost, repeated attempts would keep
    /// the session and its entries alive. So servers are asked first, without naming the session.
    pub(crate) async fn attach_to_close(
        &self,
        session_timeout: Duration,
        session: SessionInfo,
    ) -> Result<Arc<ReconnectingClient>, Failure> {
        let connector =
            self.connector(session_timeout, self.answer_limit(session_timeout)).with_session(session);
        let connected = async {
            let (all, suits) = (self.in_any_order(), |status: &str| !status.contains(NOT_SERVING));
            let answering = self.first_to_answer(session_timeout, &all, suits).await;
            let endpoint = answering.ok_or_else(|| self.unreachable())?;
            self.connect(connector, endpoint, self.connect_deadline()).await
        };
        self.breaker.attempt(&self.keeper, connected).await
    }

    /// The server that is the first to report that it serves, within the time limit for an answer. This has to be polled on the keeper, which
    /// has I/O.
    async fn find_serving(&self, session_timeout: Duration, endpoints: &[usize]) -> Option<usize> {
        if endpoints.len() < 2 {
            // There is nothing to choose.
            return None;
        }
        // A server that is configured not to report it says so.
        let serves = |status: &str| !status.is_empty() && !status.contains(NOT_SERVING);
        self.first_to_answer(session_timeout, endpoints, serves).await
    }

    /// The server that is the first to answer with a status that suits, within the time limit for an answer.
    async fn first_to_answer(
        &self,
        session_timeout: Duration,
        endpoints: &[usize],
        suits: fn(&str) -> bool,
    ) -> Option<usize> {
        let questions = endpoints.iter().map(|&endpoint| {
            async move {
                let status = self.server_status(endpoint).await?;
                suits(&status).then_some(endpoint).ok_or_else(|| io::Error::other("its status does not suit"))
            }
            .boxed()
        });
        let limit = self.keeper.now() + self.answer_limit(session_timeout);
        self.keeper.timeout_at(limit, select_ok(questions)).await?.ok().map(|(endpoint, _)| endpoint)
    }

    /// The answer of a server to `srvr`: its version and whether it serves, unless it is configured not to report that. This has to be
    /// polled on the keeper, which has I/O.
    pub(crate) async fn server_status(&self, endpoint: usize) -> io::Result<String> {
        let stream = TcpStream::connect(self.config.address(endpoint)).await?;
        let mut stream: Box<dyn Stream> = match &self.tls {
            Some(tls) => tls.connect(self.config.endpoints[endpoint].host(), stream).await?,
            None => Box::new(stream),
        };
        stream.write_all(b"srvr").await?;
        let mut status = String::new();
        // Some servers end TLS without a close message.
        match stream.take(MAX_STATUS).read_to_string(&mut status).await {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(status),
        }
    }

    /// A connector according to the configuration. `session_timeout` is the requested timeout, and `silence` is how long a connection may
    /// be silent.
    fn connector(&self, session_timeout: Duration, silence: Duration) -> Connector {
        let config = &self.config;
        let mut connector = Client::connector()
            .with_session_timeout(session_timeout)
            .with_connection_timeout(silence)
            .with_fail_eagerly();
        if let Some(tls) = &self.tls {
            connector = tls.secure(connector);
        }
        match (&config.server.user, &self.password) {
            (Some(user), Some(password)) => {
                connector.with_auth("digest", format!("{user}:{}", password.expose()).as_bytes())
            }
            _ => connector,
        }
    }

    /// How long a connection may be silent, and how long a server may take for its first answer: so short that a lost request is
    /// repeated on another connection within the time limit of a command. Another server may be quicker.
    pub(crate) fn answer_limit(&self, session_timeout: Duration) -> Duration {
        let config = &self.config;
        let limits = config.server.command_timeout.min(config.server.connect_timeout / 2);
        limits.min(silence(session_timeout)).max(MIN_SILENCE)
    }

    async fn connect(
        &self,
        connector: Connector,
        endpoint: usize,
        until: BootTime,
    ) -> Result<Arc<ReconnectingClient>, Failure> {
        let (config, limit) = (&self.config, until.since(self.keeper.now()));
        let host = config.connect_string(endpoint);
        let connected = self.keeper.timeout_at(until, ReconnectingClient::connect(connector, &host)).await;
        match connected {
            Some(Ok(client)) => Ok(client),
            Some(Err(Error::NoHosts | Error::Timeout)) => Err(self.unreachable()),
            Some(Err(error)) => Err(Failure::of(&error).about(&config.to_string()).unsent()),
            None => {
                let doing = format!("opening a session at {config}");
                Err(Failure::timed_out(&doing, limit).unsent())
            }
        }
    }

    /// The reason why TLS fails at all servers. The ZooKeeper client reports that like a server that is away. `None` if TLS does not fail.
    async fn tls_refusal(&self) -> Option<Failure> {
        let asked =
            join_all((0..self.config.endpoints.len()).map(|endpoint| self.server_status(endpoint))).await;
        asked.into_iter().enumerate().find_map(|(endpoint, status)| {
            let error = status.err().filter(Tls::is_refusal)?;
            let said = excerpt(format_args!("{error}"));
            let message = format!("{}: {}: {said}", self.config, self.config.address(endpoint));
            Some(Failure::new(Kind::Denied, message).unsent())
        })
    }

    fn unreachable(&self) -> Failure {
        let message = format!("{}: no server could be connected to", self.config);
        Failure::new(Kind::Unreachable, message).unsent()
    }

    fn connect_deadline(&self) -> BootTime {
        self.keeper.now() + self.config.server.connect_timeout
    }
}

/// A connection that has been silent for this long is given up, if not earlier. The client has a default only for long sessions, and no
/// limit for requests (Z4).
///
/// It is half of the timeout. It has to exceed the time between two heartbeats plus what an answer may take; otherwise, while all answers
/// are late, each connection would be given up for the next one. And it has to leave enough time to attach to the session elsewhere.
pub(crate) fn silence(session_timeout: Duration) -> Duration {
    session_timeout / 2
}

/// A connection with a shorter limit would be given up before its first ping.
const MIN_SILENCE: Duration = Duration::from_millis(20);

/// Part of the status of a server that runs but does not belong to a majority yet.
const NOT_SERVING: &str = "not currently serving requests";

/// No server has a longer status than this.
const MAX_STATUS: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_given_up_while_a_command_has_time_for_another() {
        let ensemble = Ensemble::new(Arc::new(ZkConfig::default()), Keeper::start().unwrap()).unwrap();
        assert_eq!(ensemble.answer_limit(Duration::from_secs(32)), Duration::from_secs(1));
    }
}
