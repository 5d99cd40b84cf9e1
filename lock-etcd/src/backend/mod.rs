//! [`Etcd`]: the verbs on an etcd cluster.

mod contention;
mod enter;
mod held;
mod operator;
mod renew;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, Creates, Departure, Entry, Guarantees, Keeper, Lease, Operator, Renewal,
    Standing, Step, WaitMode,
};

use self::contention::ContentionCache;
use crate::{
    ConfigError, ConnectError, EtcdConfig,
    client::{Client, Cluster},
    diagnosis, guarantees,
    notify::WatchStream,
    session::Sessions,
};

/// Locks on an etcd cluster, version 3.4 or later. Make one for a process, and share it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{DistributedLock, Keeper, Locks};
/// use lock_etcd::{Etcd, EtcdConfig};
///
/// let config: EtcdConfig = "etcd://etcd-1,etcd-2,etcd-3/app/locks".parse()?;
/// let locks = Locks::new(Etcd::connect(config, &Keeper::shared()).await?);
/// let guard = locks.mutex("invoices/42")?.acquire().await?;
/// # guard.release().await?;
/// # Ok(())
/// # }
/// ```
pub struct Etcd {
    pub(crate) client: Client,
    pub(crate) sessions: Sessions,
    pub(crate) watches: WatchStream,
    pub(crate) contention: ContentionCache,
    pub(crate) keeper: Keeper,
    pub(crate) config: Arc<EtcdConfig>,
}

impl Etcd {
    /// A backend that connects when it is first used. Checks the configuration and reads the files that it names.
    ///
    /// # Errors
    /// [`ConfigError`] says what is wrong with the configuration.
    pub fn new(config: EtcdConfig, keeper: &Keeper) -> Result<Self, ConfigError> {
        let config = Arc::new(config);
        let cluster = Arc::new(Cluster::new(Arc::clone(&config))?);
        let client = Client::new(cluster, keeper.clone());
        let watches = WatchStream::new(client.clone(), config.prefix.clone());
        let sessions = Sessions::new(client.clone(), config.prefix.clone(), Arc::clone(watches.hub()));
        Ok(Self {
            client,
            sessions,
            watches,
            contention: ContentionCache::new(),
            keeper: keeper.clone(),
            config,
        })
    }

    /// The same, after a member of the cluster has answered that it can be used, and that we may use it.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is wrong, no member answers within the time limits, the user may not read
    /// and write under the prefix, or the version is older than 3.4.
    ///
    /// # Cancel safety
    /// Safe to drop: nothing is written.
    pub async fn connect(config: EtcdConfig, keeper: &Keeper) -> Result<Self, ConnectError> {
        let etcd = Self::new(config, keeper)?;
        diagnosis::check(&etcd).await.map_err(ConnectError::Store)?;
        Ok(etcd)
    }
}

#[async_trait]
impl Backend for Etcd {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let standing = match step {
            Step::Create => self.create(entry, wait).await,
            // Boxed, so that the future of an acquisition that need not wait is small.
            Step::Again(token) => Box::pin(self.look_again(entry, token)).await,
        };
        if matches!(standing, Ok(Standing::Gone)) {
            self.sessions.mark_told_gone(entry.id);
        }
        standing
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.renew_all(leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let was_there = self.sessions.leave(entry, creates == Creates::InDoubt).await?;
        Ok(if was_there { Departure::Left } else { Departure::Absent })
    }

    async fn give_back(&self) {
        self.sessions.give_back().await;
    }

    fn alarms(&self) -> Alarms {
        self.watches.alarms()
    }

    fn operator(&self) -> &dyn Operator {
        self
    }

    fn guarantees(&self) -> &Guarantees {
        &guarantees::ETCD
    }
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd")
            .field("cluster", &format_args!("{}", self.config))
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}
