//! [`Redis`]: the verbs on one Redis server, each one script and one round trip.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::join_all;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, Entry, Guarantees, Holder, Keeper, Kind, Lease,
    Operator, Renewal, Standing, Step, WaitMode, valid_until,
};

use crate::{
    ConfigError, ConnectError, RedisConfig,
    client::{Client, Endpoint, RuntimeSelector},
    diagnosis,
    foreign_holders::ForeignHolders,
    guarantees,
    keys::Keys,
    notify::{Notifications, Subscriber},
    reply::{self, EnterReply},
    request::Request,
};

/// So many leases go into one script, for the server does nothing else while it runs: about a third of a millisecond.
const RENEWALS_AT_ONCE: usize = 128;

/// The time between two looks of a process in which nobody is told anything, however many wait.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long the tombstone of an entry that left in doubt stays, at least: longer than any server is slow without its
/// connections being given up.
const MIN_TOMBSTONE_TTL: Duration = Duration::from_secs(60);

/// Locks on a Redis or Valkey server, version 6.2 or later. Make one for a process, and share it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{DistributedLock, Keeper, Locks};
/// use lock_redis::{Redis, RedisConfig};
///
/// let config: RedisConfig = "redis://localhost?prefix=locks:".parse()?;
/// let locks = Locks::new(Redis::connect(config, &Keeper::shared()).await?);
/// let guard = locks.mutex("invoices/42")?.acquire().await?;
/// # guard.release().await?;
/// # Ok(())
/// # }
/// ```
pub struct Redis {
    pub(crate) client: Client,
    pub(crate) notifications: Notifications,
    pub(crate) keeper: Keeper,
    pub(crate) config: Arc<RedisConfig>,
    foreign_holders: ForeignHolders,
}

impl Redis {
    /// A backend that connects when it is first used. Checks the configuration and reads the files that it names.
    ///
    /// # Errors
    /// [`ConfigError`] says what is wrong with the configuration.
    pub fn new(config: RedisConfig, keeper: &Keeper) -> Result<Self, ConfigError> {
        let config = Arc::new(config);
        let endpoint = Arc::new(Endpoint::new(Arc::clone(&config))?);
        let runtimes = Arc::new(RuntimeSelector::new(keeper.clone()));
        let client = Client::new(Arc::clone(&endpoint), Arc::clone(&runtimes));
        let notifications = Notifications::new(endpoint, runtimes);
        Ok(Self {
            client,
            notifications,
            keeper: keeper.clone(),
            config,
            foreign_holders: ForeignHolders::default(),
        })
    }

    /// The same, after the server has answered that it is one that can be used.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is wrong, the server does not answer within its time limits, refuses the
    /// credentials, is a replica, a node of a cluster or a sentinel, or is older than 6.2.
    ///
    /// # Cancel safety
    /// Safe to drop: nothing is written.
    pub async fn connect(config: RedisConfig, keeper: &Keeper) -> Result<Self, ConnectError> {
        let redis = Self::new(config, keeper)?;
        diagnosis::check(&redis).await.map_err(ConnectError::Store)?;
        Ok(redis)
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.config.prefix
    }

    pub(crate) fn keys(&self, name: &lock_core::LockName) -> Keys {
        Keys::new(self.prefix(), name)
    }

    /// For a request that needs no hint itself.
    pub(crate) fn channel(&self) -> Vec<u8> {
        self.notifications.current().channel().to_vec()
    }

    /// Extends the leases of one script.
    async fn renew_some(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let mut keys = Vec::with_capacity(3 * leases.len());
        let mut args = Vec::with_capacity(4 * leases.len() + 1);
        args.push(self.channel());
        for Lease { entry, token } in leases {
            let own = self.keys(&entry.name);
            keys.extend([own.lock(), own.queue(), own.entries()]);
            args.extend([mutex_flag(entry.claim.kind()), text(entry.id), text(token), millis(entry.ttl)]);
        }
        // Before the keeper tries again, which is a sixth of the ttl after it asked.
        let patience = leases.iter().map(|lease| lease.entry.ttl).min().unwrap_or_default() / 6;
        let sent = self.keeper.now();
        match self.client.renew(patience, leases.len(), &keys, &args).await {
            Ok(answers) => answers
                .into_iter()
                .zip(leases)
                .map(|(answer, Lease { entry, .. })| {
                    let valid_until = valid_until(sent, entry.ttl, entry.ttl);
                    answer
                        .map(|renewed| if renewed { Renewal::Renewed { valid_until } } else { Renewal::Lost })
                })
                .collect(),
            // What happened to all happened to each.
            Err(error) => leases.iter().map(|_| Err(copy(&error))).collect(),
        }
    }
}

#[async_trait]
impl Backend for Redis {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        // C6: who may have to wait listens first.
        let (subscriber, hints) = match wait {
            WaitMode::Try => (self.notifications.current(), None),
            WaitMode::Queue => {
                let (subscriber, hints) = self.notifications.listen(entry.id).await;
                (subscriber, Some(hints))
            }
        };
        let own = self.keys(&entry.name);
        let keys = [own.lock(), own.queue(), own.entries(), own.tokens(), own.tombstone(entry.id)];
        let mode = match wait {
            WaitMode::Try => 't',
            WaitMode::Queue if subscriber.is_live() => 'q',
            WaitMode::Queue => 'p',
        };
        let kind = letter(entry.claim.kind());
        let (permits, limit) = (entry.claim.permits(), entry.claim.limit());
        let place = match step {
            Step::Create => format!("{mode} {kind} {permits} {limit}"),
            Step::Again(token) => format!("{mode} {kind} {permits} {limit} {token}"),
        };
        let owner = match &entry.label {
            None => format!(":{}", entry.id),
            Some(label) => format!(":{}:{label}", entry.id),
        };
        let args = [owner.into_bytes(), millis(entry.ttl), place.into_bytes(), subscriber.channel().to_vec()];
        let creates = (step == Step::Create).then_some(entry.id);
        let sent = self.keeper.now();
        let answer = self.client.execute(Request::enter(creates, keys, args)).await?;
        let reply = reply::enter(&answer, self.client.server())?;
        let valid_until = valid_until(sent, entry.ttl, entry.ttl);
        if let EnterReply::Waiting { holder: Some(Holder::Foreign { expires: false }), .. } = reply {
            self.foreign_holders.observe(self.prefix(), entry, self.keeper.now());
        }
        Ok(match reply {
            EnterReply::Admitted { token } => Standing::Admitted { token, ttl: entry.ttl, valid_until },
            EnterReply::Waiting { token, ahead, look_again, holder, unnotified } => Standing::Waiting {
                token,
                ttl: entry.ttl,
                valid_until,
                ahead,
                holder,
                // From now, not from when it was sent: who looks too early has to look twice.
                look_again: self.keeper.now()
                    + if unnotified { look_again.max(poll_interval(&subscriber)) } else { look_again },
                // A try is never told to wait.
                hints: hints.unwrap_or_else(|| Box::pin(futures_util::stream::empty())),
            },
            EnterReply::Busy => Standing::Busy,
            EnterReply::Gone => Standing::Gone,
        })
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let batches = leases.chunks(RENEWALS_AT_ONCE).map(|batch| self.renew_some(batch));
        join_all(batches).await.into_iter().flatten().collect()
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let own = self.keys(&entry.name);
        let [lock, queue, entries] = [own.lock(), own.queue(), own.entries()];
        let subscriber = self.notifications.current();
        let [id, fast] = [text(entry.id), mutex_flag(entry.claim.kind())];
        let channel = subscriber.channel().to_vec();
        let request = if creates == Creates::InDoubt {
            let tombstone_ttl = millis(entry.ttl.max(MIN_TOMBSTONE_TTL));
            let keys = [lock, queue, entries, own.tombstone(entry.id)];
            Request::leave_in_doubt(keys, [id, fast, channel, tombstone_ttl])
        } else {
            Request::leave([lock, queue, entries], [id, fast, channel])
        };
        let answer = self.client.execute(request).await?;
        if let Some(hint) = reply::hint(&answer) {
            subscriber.deliver(hint);
        }
        let departure = reply::departure(&answer, self.client.server())?;
        if creates == Creates::InDoubt {
            self.client.delete_tombstone(entry.id, &own.tombstone(entry.id));
        }
        Ok(departure)
    }

    /// There is nothing but entries, and the connections, which go with the backend.
    async fn give_back(&self) {}

    fn alarms(&self) -> Alarms {
        self.notifications.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        &guarantees::STANDALONE
    }

    fn operator(&self) -> &dyn Operator {
        self
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("server", &format_args!("{}", self.config))
            .field("prefix", &self.prefix())
            .finish_non_exhaustive()
    }
}

/// How long one of those who wait at a subscriber leaves it to the others to look: all of them together look so often.
fn poll_interval(subscriber: &Subscriber) -> Duration {
    POLL_INTERVAL.saturating_mul(u32::try_from(subscriber.waiters()).unwrap_or(u32::MAX))
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::Mutex => 'm',
        Kind::RwLock => 'r',
        Kind::Semaphore => 's',
    }
}

/// Only a mutex has a fast path; the others are looked up.
fn mutex_flag(kind: Kind) -> Vec<u8> {
    if kind == Kind::Mutex { b"m".to_vec() } else { Vec::new() }
}

pub(crate) fn text(value: impl fmt::Display) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Whole milliseconds, rounded up: a lease on the server is never shorter than the client believes.
fn millis(duration: Duration) -> Vec<u8> {
    text(duration.as_nanos().div_ceil(1_000_000))
}

fn copy(error: &BackendError) -> BackendError {
    let same = BackendError::new(crate::error::STORE, error.kind().clone(), message(error));
    if error.is_unsent() { same.unsent() } else { same }
}

/// What the error says, without the name of the store, which `BackendError` puts before it.
fn message(error: &BackendError) -> String {
    let shown = error.to_string();
    let store = [crate::error::STORE, ": "].concat();
    shown.strip_prefix(&store).map_or_else(|| shown.clone(), str::to_owned)
}
