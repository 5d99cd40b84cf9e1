//! [`Cluster`]: the members, and how to open a connection to one of them.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use etcd_client::{ConnectOptions, StatusResponse};
use futures_util::{StreamExt, stream::FuturesUnordered};
use lock_core::{BackendErrorKind as Kind, CircuitBreaker, Keeper, excerpt, isolate};

use super::{channel::Channel, tls};
use crate::{
    ConfigError, EtcdConfig,
    error::Failure,
    version::{Version, floor},
};

/// How long a member may be silent before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(250);

/// How long after a member could not be used it is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A server disconnects clients that ping more often than every 5 s, or while no request is open (E12).
const PING_EVERY: Duration = Duration::from_secs(10);

/// The members of a cluster, with the password and the certificates that were read from files.
pub(crate) struct Cluster {
    pub(crate) config: Arc<EtcdConfig>,
    options: ConnectOptions,
    /// The endpoint that is tried first.
    first: AtomicUsize,
    /// One for each endpoint: while a member is away, all callers that need a connection to it share one attempt.
    breakers: Vec<CircuitBreaker<Failure>>,
    /// Whether an old version was logged.
    warned: AtomicBool,
    /// Channels that a test has made, which are used before connections to members are opened.
    #[cfg(test)]
    prepared: lock_core::sync::Mutex<std::collections::VecDeque<Channel>>,
}

impl Cluster {
    /// Checks the configuration and reads its files. Opens no connection.
    pub(crate) fn new(config: Arc<EtcdConfig>) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut options = ConnectOptions::new()
            .with_require_leader(true)
            .with_auto_token_refresh(true)
            .with_connect_timeout(config.server.connect_timeout)
            // For the connection with the watch stream; every other request has a time limit.
            .with_keep_alive(PING_EVERY, PING_EVERY)
            .with_keep_alive_while_idle(false)
            // For idle connections, so that a firewall between us and the server does not drop them.
            .with_tcp_keepalive(PING_EVERY);
        if let Some(tls) = tls::load(&config)? {
            options = options.with_tls(tls);
        }
        if let (Some(user), Some(password)) = (&config.server.user, config.server.read_password()?) {
            options = options.with_user(user, password.expose());
        }
        // Half of the limit, so that a caller who waited for the pause has the other half for the attempt.
        let longest = config.server.connect_timeout / 2;
        let breaker = || CircuitBreaker::new(Failure::is_of_connection).with_longest_pause(longest);
        let breakers = config.endpoints.iter().map(|_| breaker()).collect();
        Ok(Self {
            config,
            options,
            first: AtomicUsize::new(0),
            breakers,
            warned: AtomicBool::new(false),
            #[cfg(test)]
            prepared: lock_core::sync::Mutex::default(),
        })
    }

    /// Opens a connection to a member on the current runtime. The caller bounds the time.
    ///
    /// The members are tried in their order, beginning with the one that worked last; those that could not be reached the last time come
    /// after all others. The next member is tried when one fails or has been silent for a moment, also while that one waits for its turn to
    /// connect. Each member has to answer a request, because a connection alone shows nothing. As long as one is silent, possibly forever,
    /// those that failed are asked again: a cluster without a leader may have one soon.
    pub(super) async fn open_channel(&self, keeper: &Keeper) -> Result<Channel, Failure> {
        #[cfg(test)]
        if let Some(channel) = self.prepared.lock().pop_front() {
            return Ok(channel);
        }
        let (first, count) = (self.first.load(Ordering::Relaxed), self.config.endpoints.len());
        let (away, there): (Vec<_>, Vec<_>) = (0..count)
            .map(|i| (first + i) % count)
            .partition(|endpoint| self.breakers[*endpoint].retry_at().is_some());
        let mut waiting = there.into_iter().chain(away);
        let ask = |endpoint, again: bool| async move {
            if again {
                keeper.sleep_until(keeper.now() + ASK_AGAIN_AFTER).await;
            }
            (endpoint, again, self.open_member(endpoint, keeper).await)
        };
        let mut tries = FuturesUnordered::new();
        // How many members have not answered yet.
        let mut silent = 0;
        let mut failed: Option<Failure> = None;
        let mut next = waiting.next();
        loop {
            silent += usize::from(next.is_some());
            tries.extend(next.take().map(|endpoint| ask(endpoint, false)));
            tokio::select! {
                biased;
                Some((endpoint, again, greeted)) = tries.next() => {
                    let failure = match greeted {
                        Ok(channel) => {
                            self.first.store(channel.endpoint, Ordering::Relaxed);
                            return Ok(channel);
                        }
                        Err(failure) => failure,
                    };
                    silent -= usize::from(!again);
                    next = waiting.next();
                    if next.is_none() && silent == 0 {
                        return Err(more_telling(failed, failure));
                    }
                    if *failure.kind() != Kind::Denied {
                        tries.push(ask(endpoint, true));
                    }
                    failed = Some(more_telling(failed, failure));
                },
                () = keeper.sleep_until(keeper.now() + HEAD_START) => next = waiting.next(),
            }
        }
    }

    /// Makes the next connection use this channel, which a test has made.
    #[cfg(test)]
    pub(super) fn prepare(&self, channel: Channel) {
        self.prepared.lock().push_back(channel);
    }

    /// Tries another member first from now on.
    pub(crate) fn avoid(&self, endpoint: usize) {
        let next = (endpoint + 1) % self.config.endpoints.len();
        // Another task may have found a better member in the meantime.
        let _ = self.first.compare_exchange(endpoint, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    async fn open_member(&self, endpoint: usize, keeper: &Keeper) -> Result<Channel, Failure> {
        let (client, status) = self.breakers[endpoint].attempt(keeper, self.connect_member(endpoint)).await?;
        let address = self.config.address(endpoint);
        if status.leader() == 0 {
            return Err(Failure::new(Kind::Unavailable, format!("{address} is a member without a leader")));
        }
        if status.is_learner() {
            let message = format!("{address} is a learner and serves no locks: promote it, or leave it out");
            return Err(Failure::new(Kind::Unavailable, message).advised());
        }
        self.check_version(&address, status.version());
        Ok(Channel::new(client, address, endpoint))
    }

    /// Connects to one member, and asks how it is. The caller bounds the time.
    pub(crate) async fn connect_member(
        &self,
        endpoint: usize,
    ) -> Result<(etcd_client::Client, StatusResponse), Failure> {
        let address = self.config.address(endpoint);
        let failed = |error: etcd_client::Error| Failure::of(&address, &error);
        let client = etcd_client::Client::connect([self.config.url(endpoint)], Some(self.options.clone()));
        let client = client.await.map_err(failed)?;
        let status = client.maintenance_client().status().await.map_err(failed)?;
        Ok((client, status))
    }

    fn check_version(&self, address: &str, version: &str) {
        let Some(floor) = Version::parse(version).and_then(floor) else { return };
        if !self.warned.swap(true, Ordering::Relaxed) {
            isolate(|| {
                tracing::warn!(
                    member = address,
                    version = excerpt(format_args!("{version}")),
                    "this version of etcd has faults that concern locks; use {floor} or later: see docs/backends/etcd.md"
                );
            });
        }
    }
}

/// Which of two failures is reported: one that an operator has to fix is more useful than that a member is down.
fn more_telling(before: Option<Failure>, now: Failure) -> Failure {
    before.filter(|failure| *failure.kind() == Kind::Denied).unwrap_or(now)
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("cluster", &format_args!("{}", self.config)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Five attempts in the first second, and two in each later one.
    #[tokio::test]
    async fn while_a_member_is_away_few_attempts_are_made_however_many_ask() {
        const TRYING: Duration = Duration::from_secs(2);
        let config: EtcdConfig = "etcd://127.0.0.1:1/p".parse().unwrap();
        let (cluster, keeper) = (Cluster::new(Arc::new(config)).unwrap(), Keeper::start().unwrap());
        let (began, mut tries) = (Instant::now(), 0);
        while began.elapsed() < TRYING {
            assert!(cluster.open_channel(&keeper).await.is_err());
            tries += 1;
        }
        let seconds = began.elapsed().as_secs() + 1;
        assert!(tries <= 6 + 2 * seconds, "{tries} tries within {seconds} s");
    }
}
