//! [`ZooKeeper`]: the backend.

use std::{fmt, sync::Arc};

use lock_core::{BackendError, BackendErrorKind as Kind, Keeper, LockName, settings::ConfigError};

use crate::{ConnectError, ZkConfig, client::Ensemble, diagnosis, error::Failure, session::Sessions};

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

    /// Like [`new`](Self::new), and also connects: opens a session and writes under the chroot.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is wrong, no server answers within the time limits, the user may not write
    /// under the chroot, or the version is older than 3.6.
    ///
    /// # Cancel safety
    /// If it is dropped, a session that it was opening is closed.
    pub async fn connect(config: ZkConfig, keeper: &Keeper) -> Result<Self, ConnectError> {
        let zookeeper = Self::new(config, keeper)?;
        diagnosis::check(&zookeeper.sessions).await.map_err(ConnectError::Store)?;
        Ok(zookeeper)
    }

    /// The path of a lock's container.
    pub(crate) fn container(&self, name: &LockName) -> Result<String, BackendError> {
        self.sessions.keys().lock(name).ok_or_else(|| {
            let message = "with apache curator the name of a lock is a path: steps with a `/` between them";
            self.failure(Kind::Unsupported, message).unsent().advised().into()
        })
    }

    /// A failure whose message begins with the address of the ensemble.
    pub(crate) fn failure(&self, kind: Kind, message: &str) -> Failure {
        Failure::new(kind, message).about(&self.config.to_string())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_path_is_refused_with_the_address_and_advice() {
        let config = ZkConfig::from_url("zk://h:1/app?interop=curator").unwrap();
        let zookeeper = ZooKeeper::new(config, &Keeper::start().unwrap()).unwrap();
        let error = zookeeper.container(&LockName::new("a//b").unwrap()).unwrap_err();
        let trouble = "the store lacks something that is needed";
        let said = "with apache curator the name of a lock is a path: steps with a `/` between them";
        assert_eq!(error.explained().to_string(), format!("{trouble} (zookeeper: zk://h:1/app: {said})"));
    }
}
