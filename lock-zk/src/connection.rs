//! Opening connections, and waiting no longer than one wants to.

use std::{future::Future, io, pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{
    FutureExt,
    future::{join_all, poll_fn, select_ok},
};
use lock_core::{BackendErrorKind as Kind, BootTime, Entropy, Keeper, SystemEntropy, settings::ConfigError};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use zookeeper_client::{Client, Connector, Error, SessionInfo};

use crate::{
    ZkConfig,
    error::Failure,
    link::Link,
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
    pub(crate) async fn open(&self, session_timeout: Duration) -> Result<Arc<Link>, Failure> {
        let until = self.until();
        let opened = self.connect(self.connector(session_timeout), None, until).await;
        match opened {
            Err(failure) if self.tls.is_some() && *failure.kind() == Kind::Unreachable => {
                let refusal = by(&self.keeper, until, self.refusal()).await.flatten();
                Err(refusal.unwrap_or(failure))
            }
            opened => opened,
        }
    }

    /// Attaches to a session that is there, by one server or by any. [`Error::SessionExpired`] is the ensemble's own word that it is not.
    pub(crate) async fn attach(
        &self,
        session_timeout: Duration,
        session: SessionInfo,
        endpoint: Option<usize>,
    ) -> Result<Arc<Link>, Failure> {
        let connector = self.connector(session_timeout).with_session(session);
        self.connect(connector, endpoint, self.until()).await
    }

    /// Whichever server says first that it serves, within the time that one has to answer. On the keeper, which has I/O.
    pub(crate) async fn find(&self, session_timeout: Duration) -> Option<usize> {
        let all = self.config.endpoints.len();
        let first = SystemEntropy.bits() as usize % all;
        let questions = (first..first + all).map(|endpoint| {
            let endpoint = endpoint % all;
            async move {
                let told = self.ask(endpoint).await?;
                // One that may not tell says so.
                let serves = !told.is_empty() && !told.contains(SERVES_NOT);
                serves.then_some(endpoint).ok_or(io::Error::other("it does not serve"))
            }
            .boxed()
        });
        let limit = self.keeper.now() + self.silence(session_timeout);
        by(&self.keeper, limit, select_ok(questions)).await?.ok().map(|(endpoint, _)| endpoint)
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
        let mut connector = Client::connector()
            .with_session_timeout(session_timeout)
            .with_connection_timeout(self.silence(session_timeout))
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

    /// How long it may take until something comes on a connection.
    pub(crate) fn silence(&self, session_timeout: Duration) -> Duration {
        let config = &self.config;
        let silence = config.command_timeout.min(config.connect_timeout / 2).min(silence(session_timeout));
        silence.max(LEAST_SILENCE)
    }

    async fn connect(
        &self,
        connector: Connector,
        endpoint: Option<usize>,
        until: BootTime,
    ) -> Result<Arc<Link>, Failure> {
        let config = &self.config;
        let hosts = config.connect_string(endpoint);
        let connected = by(&self.keeper, until, Link::connect(connector, &hosts)).await;
        match connected {
            Some(Ok(link)) => Ok(link),
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

/// A connection on which nothing has come for so long is given up. The client has a default only for long sessions, and none for who
/// waits for it (Z4).
///
/// Half of the timeout: it has to be more than the time between two heartbeats and what an answer may take, or where all answers
/// are late, each connection is given up for the next one; and less than what leaves a session time to be attached to elsewhere.
fn silence(session_timeout: Duration) -> Duration {
    session_timeout / 2
}

/// One that has less than a ping in it would be given up at once.
const LEAST_SILENCE: Duration = Duration::from_millis(20);

/// What a server says that is there, and belongs to no majority yet.
const SERVES_NOT: &str = "not currently serving requests";

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

#[cfg(test)]
mod tests {
    use lock_core::margin;

    use super::*;
    use crate::session::{class, period};

    /// Three tenths of a timeout is what a session of six ticks bears at the most: see `Pulse`.
    #[test]
    fn a_connection_is_kept_while_its_answers_are_as_late_as_a_session_bears_and_given_up_while_there_is_time_for_another()
     {
        let tick = Duration::from_secs(2);
        for ttl in (1..600).map(Duration::from_secs) {
            let timeout = class::timeout(ttl, tick);
            let period = period(tick, timeout);
            assert!(silence(timeout) > period + timeout * 3 / 10, "given up at {timeout:?}");
            // What counts is older than a silence that begins now by two heartbeats at the most.
            let left = timeout.checked_sub(margin(timeout) + period * 2 + silence(timeout));
            assert!(left.is_some_and(|left| left >= timeout / 10), "{left:?} left of {timeout:?}");
        }
    }
}
