//! [`Etcd`]: the backend.

use std::{fmt, sync::Arc};

use lock_core::{BackendError, Keeper};

use super::contention::ContentionCache;
use crate::{
    ConfigError, EtcdConfig,
    client::{Client, Cluster},
    error::Failure,
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
        let hub = Arc::clone(watches.hub());
        let sessions = Sessions::new(client.clone(), config.prefix.clone(), hub);
        Ok(Self {
            client,
            sessions,
            watches,
            contention: ContentionCache::new(),
            keeper: keeper.clone(),
            config,
        })
    }

    /// The failure as an error that names the cluster.
    pub(crate) fn backend_error(&self, failure: Failure) -> BackendError {
        failure.at(&self.config).into()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::misunderstood, queue};

    #[test]
    fn what_an_answer_means_is_told_of_its_cluster_without_a_password() {
        let config = EtcdConfig::from_url("etcd://app:hunter2@h:1/locks").unwrap();
        let etcd = Etcd::new(config, &Keeper::start().unwrap()).unwrap();
        for failure in [misunderstood("a look"), queue::foreign(b"x")] {
            let said = etcd.backend_error(failure).to_string();
            assert!(said.starts_with("etcd: etcd://app@h:1/locks/: "), "{said}");
        }
    }
}
