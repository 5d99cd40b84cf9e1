//! Opening connections, and waiting no longer than one wants to.

use std::{future::Future, io, pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::future::{join_all, poll_fn};
use lock_core::{BackendErrorKind as Kind, BootTime, Keeper, settings::ConfigError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use zookeeper_client::{Client, Connector, Error, SessionInfo};

use crate::{
    ZkConfig,
    error::Failure,
    tls::{Stream, Tls},
};

/// How to reach the ensemble.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) config: Arc<ZkConfig>,
    tls: Option<Tls>,
    keeper: Keeper,
}

impl Route {
    /// Reads the files that the configuration names.
    pub(crate) fn new(config: Arc<ZkConfig>, keeper: Keeper) -> Result<Self, ConfigError> {
        let tls = Tls::load(&config)?;
        Ok(Self { config, tls, keeper })
    }

    /// Opens a session. The client's tasks run where this is polled: on the keeper.
    pub(crate) async fn open(&self, session_timeout: Duration) -> Result<Client, Failure> {
        let until = self.until();
        let opened = self.connect(self.connector(session_timeout), until).await;
        match opened {
            Err(failure) if self.tls.is_some() && *failure.kind() == Kind::Unreachable => {
                let refusal = by(&self.keeper, until, self.refusal()).await.flatten();
                Err(refusal.unwrap_or(failure))
            }
            opened => opened,
        }
    }

    /// Attaches to a session that is there. To drop the client closes the session, unless it is detached.
    /// [`Error::SessionExpired`] is the ensemble's own word that it is not.
    pub(crate) async fn attach(
        &self,
        session_timeout: Duration,
        session: SessionInfo,
        detached: bool,
    ) -> Result<Client, Failure> {
        let connector = self.connector(session_timeout).with_session(session);
        self.connect(if detached { connector.with_detached() } else { connector }, self.until()).await
    }

    /// What a server tells about itself, to everybody unless it is told not to. On the keeper, which has I/O.
    pub(crate) async fn ask(&self, endpoint: usize) -> io::Result<String> {
        let stream = TcpStream::connect(self.config.address(endpoint)).await?;
        let mut stream: Box<dyn Stream> = match &self.tls {
            Some(tls) => tls.greet(self.config.endpoints[endpoint].host(), stream).await?,
            None => Box::new(stream),
        };
        stream.write_all(b"srvr").await?;
        let mut told = String::new();
        // Some servers end TLS without a word, as they do without TLS.
        match stream.take(MOST_TOLD).read_to_string(&mut told).await {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
            _ => Ok(told),
        }
    }

    /// A connector with everything that the configuration says. `session_timeout` is what is asked for.
    fn connector(&self, session_timeout: Duration) -> Connector {
        let config = &self.config;
        // A connection without a word for so long is given up; one with less than a ping in it would be given up at once. The
        // client has a default only for long sessions, and none for who waits for it (Z4).
        let silence = config.command_timeout.min(config.connect_timeout / 2).min(session_timeout * 2 / 5);
        let mut connector = Client::connector()
            .with_session_timeout(session_timeout)
            .with_connection_timeout(silence.max(Duration::from_millis(20)))
            .with_fail_eagerly();
        if let Some(tls) = &self.tls {
            connector = tls.secure(connector);
        }
        match (&config.user, &config.password) {
            (Some(user), Some(password)) => {
                connector.with_auth("digest", format!("{user}:{}", password.expose()).as_bytes())
            }
            _ => connector,
        }
    }

    async fn connect(&self, connector: Connector, until: BootTime) -> Result<Client, Failure> {
        let config = &self.config;
        let connected = by(&self.keeper, until, connector.connect(&config.connect_string())).await;
        match connected {
            Some(Ok(client)) => Ok(client),
            Some(Err(error @ (Error::NoHosts | Error::Timeout))) => {
                let message = format!("{config}: no server could be connected to ({error})");
                Err(Failure::new(Kind::Unreachable, message).unsent())
            }
            Some(Err(error)) => Err(Failure::of(&error).about(&config.to_string()).unsent()),
            None => {
                let doing = format!("opening a session at {config}");
                Err(Failure::timed_out(&doing, config.connect_timeout).unsent())
            }
        }
    }

    /// Why TLS lets us in nowhere: the client of ZooKeeper does not tell that from a server that is away. `None` if it is not
    /// that.
    async fn refusal(&self) -> Option<Failure> {
        let asked = join_all((0..self.config.endpoints.len()).map(|endpoint| self.ask(endpoint))).await;
        asked.into_iter().enumerate().find_map(|(endpoint, told)| {
            let error = told.err().filter(Tls::is_refusal)?;
            let message = format!("{}: {}: {error}", self.config, self.config.address(endpoint));
            Some(Failure::new(Kind::Denied, message).unsent())
        })
    }

    fn until(&self) -> BootTime {
        self.keeper.now() + self.config.connect_timeout
    }
}

/// Nobody says more than this about himself.
const MOST_TOLD: u64 = 64 * 1024;

/// The result of a future, or `None` if it is not there by `until` on the keeper's clock. Needs no runtime.
pub(crate) async fn by<T>(
    keeper: &Keeper,
    until: BootTime,
    future: impl Future<Output = T> + Send,
) -> Option<T> {
    let mut future = pin!(future);
    let mut timer = pin!(keeper.sleep_until(until));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}
