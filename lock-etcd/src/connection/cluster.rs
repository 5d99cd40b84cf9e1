//! [`Cluster`]: the members, and how a connection to one of them is opened.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use etcd_client::{Client, ConnectOptions, StatusResponse};
use futures_util::{StreamExt, stream::FuturesUnordered};
use lock_core::{BackendErrorKind as Kind, Keeper};

use super::lane::Link;
use crate::{
    ConfigError, EtcdConfig,
    config::tls,
    error::Failure,
    version::{Version, floor},
};

/// How long a member may be silent before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(250);

/// A server drops who pings it more often than every 5 s, or while nothing is asked (E12).
const PING_EVERY: Duration = Duration::from_secs(10);

/// The members of a cluster, with all that was read from files for them.
pub(crate) struct Cluster {
    pub(crate) config: Arc<EtcdConfig>,
    options: ConnectOptions,
    /// The endpoint that is tried first.
    first: AtomicUsize,
    /// Whether somebody was told of an old version.
    warned: AtomicBool,
}

impl Cluster {
    /// Checks the configuration and reads its files. Opens no connection.
    pub(crate) fn new(config: Arc<EtcdConfig>) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut options = ConnectOptions::new()
            .with_require_leader(true)
            .with_auto_token_refresh(true)
            .with_connect_timeout(config.connect_timeout)
            // For the connection with the watch stream; whoever waits for an answer has a time limit.
            .with_keep_alive(PING_EVERY, PING_EVERY)
            .with_keep_alive_while_idle(false)
            // For those that nobody uses: what stands between us and the server is not to forget them.
            .with_tcp_keepalive(PING_EVERY);
        if let Some(tls) = tls::load(&config)? {
            options = options.with_tls(tls);
        }
        if let (Some(user), Some(password)) = (&config.user, &config.password) {
            options = options.with_user(user, password.expose());
        }
        Ok(Self { config, options, first: AtomicUsize::new(0), warned: AtomicBool::new(false) })
    }

    /// Opens a connection to a member on the current runtime. The caller bounds the time.
    ///
    /// The members are tried in their order, beginning with the one that did last; the next one starts when one fails, or
    /// is silent for a moment. Each has to say hello: a connection alone shows nothing.
    pub(crate) async fn open(&self, keeper: &Keeper) -> Result<Link, Failure> {
        let (first, count) = (self.first.load(Ordering::Relaxed), self.config.endpoints.len());
        let mut waiting = (0..count).map(|i| (first + i) % count);
        let mut tries = FuturesUnordered::new();
        let mut failed: Option<Failure> = None;
        tries.extend(waiting.next().map(|endpoint| self.greet(endpoint)));
        loop {
            tokio::select! {
                biased;
                Some(greeted) = tries.next() => match greeted {
                    Ok(link) => {
                        self.first.store(link.endpoint, Ordering::Relaxed);
                        return Ok(link);
                    }
                    Err(failure) => {
                        // What somebody has to mend says more than that a member is down.
                        let denied = |failure: &Failure| *failure.kind() == Kind::Denied;
                        if failed.as_ref().is_none_or(|known| !denied(known)) {
                            failed = Some(failure);
                        }
                        match waiting.next() {
                            Some(endpoint) => tries.push(self.greet(endpoint)),
                            None if tries.is_empty() => break,
                            None => {}
                        }
                    }
                },
                () = keeper.sleep_until(keeper.now() + HEAD_START) => {
                    tries.extend(waiting.next().map(|endpoint| self.greet(endpoint)));
                }
            }
        }
        Err(failed.unwrap_or_else(|| Failure::new(Kind::Unreachable, "there is no endpoint")))
    }

    /// Tries another member first from now on.
    pub(crate) fn avoid(&self, endpoint: usize) {
        let next = (endpoint + 1) % self.config.endpoints.len();
        // Somebody else may have found a better one meanwhile.
        let _ = self.first.compare_exchange(endpoint, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    async fn greet(&self, endpoint: usize) -> Result<Link, Failure> {
        let (client, status) = self.hello(endpoint).await?;
        let address = self.config.address(endpoint);
        if status.leader() == 0 {
            return Err(Failure::new(Kind::Unavailable, format!("{address} is a member without a leader")));
        }
        self.check_version(&address, status.version());
        Ok(Link::new(client, address, endpoint))
    }

    /// Connects to one member, and asks how it is. The caller bounds the time.
    pub(crate) async fn hello(&self, endpoint: usize) -> Result<(Client, StatusResponse), Failure> {
        let address = self.config.address(endpoint);
        let failed = |error: etcd_client::Error| Failure::of(&address, &error);
        let client = Client::connect([self.config.url(endpoint)], Some(self.options.clone()));
        let client = client.await.map_err(failed)?;
        let status = client.maintenance_client().status().await.map_err(failed)?;
        Ok((client, status))
    }

    fn check_version(&self, address: &str, version: &str) {
        let Some(floor) = Version::parse(version).and_then(floor) else { return };
        if !self.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                member = address,
                version,
                "this version of etcd has faults that concern locks; use {floor} or later: see docs/backends/etcd.md"
            );
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("cluster", &format_args!("{}", self.config)).finish_non_exhaustive()
    }
}
