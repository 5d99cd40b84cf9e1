//! [`ZooKeeper`]: the verbs on a ZooKeeper ensemble.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use lock_core::{
    Alarms, Backend, BackendError, BackendErrorKind, Creates, Departure, Entry, Guarantees, Keeper, Lease,
    Operator, Renewal, Standing, Step, WaitMode, settings::ConfigError,
};

use crate::{
    ConnectError, ZkConfig, client::Ensemble, diagnosis, error::Failure, guarantees, session::Sessions,
};

/// Locks on a ZooKeeper ensemble, version 3.6 or later. Make one for a process, and share it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{DistributedLock, Keeper, Locks};
/// use lock_zk::{ZkConfig, ZooKeeper};
///
/// let config: ZkConfig = "zk://zk-1,zk-2,zk-3/app/locks".parse()?;
/// let locks = Locks::new(ZooKeeper::connect(config, &Keeper::shared()).await?);
/// let guard = locks.mutex("invoices/42")?.acquire().await?;
/// # guard.release().await?;
/// # Ok(())
/// # }
/// ```
pub struct ZooKeeper {
    pub(crate) sessions: Sessions,
    pub(crate) keeper: Keeper,
    pub(crate) config: Arc<ZkConfig>,
}

impl ZooKeeper {
    /// A backend that connects when it is first used. Checks the configuration and reads the files that it names.
    ///
    /// # Errors
    /// [`ConfigError`] says what is wrong with the configuration.
    pub fn new(config: ZkConfig, keeper: &Keeper) -> Result<Self, ConfigError> {
        config.validate()?;
        let acl = config.rights()?;
        let config = Arc::new(config);
        let ensemble = Ensemble::new(Arc::clone(&config), keeper.clone())?;
        let sessions = Sessions::new(ensemble, acl, keeper.clone());
        Ok(Self { sessions, keeper: keeper.clone(), config })
    }

    /// The same, after a server has given us a session, and let us write under the chroot.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is wrong, no server answers within the time limits, the user may not write
    /// under the chroot, or the version is older than 3.6.
    ///
    /// # Cancel safety
    /// Safe to drop: a session that is opened meanwhile is closed.
    pub async fn connect(config: ZkConfig, keeper: &Keeper) -> Result<Self, ConnectError> {
        let zookeeper = Self::new(config, keeper)?;
        diagnosis::check(&zookeeper).await.map_err(ConnectError::Store)?;
        Ok(zookeeper)
    }

    /// What went wrong, and where.
    pub(crate) fn failure(&self, kind: BackendErrorKind, message: &str) -> Failure {
        Failure::new(kind, message).about(&self.config.to_string())
    }
}

#[async_trait]
impl Backend for ZooKeeper {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        match step {
            Step::Create => self.create(entry, wait).await,
            Step::Again(token) => self.look_again(entry, token).await,
        }
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.renew_all(leases).await
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let was_there = self.sessions.leave(entry, creates == Creates::InDoubt).await?;
        Ok(if was_there { Departure::Left } else { Departure::Absent })
    }

    /// Begins to close the sessions, and does not wait: the client of ZooKeeper does not say when one is closed.
    async fn give_back(&self) {
        self.sessions.close_idle();
    }

    fn alarms(&self) -> Alarms {
        self.sessions.notifier().listen()
    }

    fn operator(&self) -> &dyn Operator {
        self
    }

    fn guarantees(&self) -> &Guarantees {
        &guarantees::ZOOKEEPER
    }
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeper")
            .field("ensemble", &format_args!("{}", self.config))
            .field("sessions", &self.sessions)
            .finish_non_exhaustive()
    }
}
