//! [`Redis`]: locks on one Redis server.

use std::{fmt, sync::Arc};

use lock_core::{
    Keeper, LockName, RuntimeSelector, Tombstones,
    settings::{ConfigError, ConnectError},
    sync::Mutex,
};

use super::{contended_names::ContendedNames, foreign_holders::ForeignHolders, plain_grants::PlainGrants};
use crate::{
    client::{Client, Endpoint},
    config::RedisConfig,
    diagnosis,
    keys::Keys,
    notify::Notifications,
};

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
    pub(super) client: Client,
    pub(super) notifications: Notifications,
    pub(super) keeper: Keeper,
    pub(super) config: Arc<RedisConfig>,
    pub(super) foreign_holders: ForeignHolders,
    pub(super) contended: ContendedNames,
    pub(super) plain_grants: PlainGrants,
    /// Entries that left while a create of them was in doubt. Only those whose create was a script have a tombstone on the server.
    pub(super) tombstones: Mutex<Tombstones>,
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
            contended: ContendedNames::default(),
            plain_grants: PlainGrants::default(),
            tombstones: Mutex::default(),
        })
    }

    /// Like [`new`](Self::new), and also connects to check that the server can be used.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is wrong, the server does not answer within its time limits, refuses the
    /// credentials, is a replica, a node of a cluster or a sentinel, or is older than 6.2.
    ///
    /// # Cancel safety
    /// Safe to drop: nothing is written.
    pub async fn connect(config: RedisConfig, keeper: &Keeper) -> Result<Self, ConnectError> {
        let redis = Self::new(config, keeper)?;
        diagnosis::check(&redis.client, &redis.config).await.map_err(ConnectError::Store)?;
        Ok(redis)
    }

    pub(super) fn prefix(&self) -> &str {
        &self.config.prefix
    }

    pub(super) fn keys(&self, name: &LockName) -> Keys {
        Keys::new(self.prefix(), name)
    }

    /// The channel of the calling task's runtime, for a request that needs no hints itself.
    pub(super) fn channel(&self) -> Vec<u8> {
        self.notifications.current().channel().to_vec()
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
