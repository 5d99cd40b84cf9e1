//! [`RwLock`]: many readers or one writer.

use std::sync::Arc;

use crate::{AcquireOptions, Claim, Lock, LockName, client::Client};

/// A lock that many readers share, or one writer has alone. Made by [`Locks::rwlock`](crate::Locks::rwlock).
///
/// First come, first served: a reader that comes after a waiting writer waits behind it, so neither side starves. A
/// reader cannot become a writer (two that tried would wait for each other); release, and ask for the other side.
///
/// ```
/// use lock_core::{DistributedLock, Locks, Memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::Error> {
/// let config = Locks::new(Memory::new()).rwlock("config")?;
/// let (one, two) = (config.read().acquire().await?, config.read().acquire().await?);
/// assert!(config.write().try_acquire().await?.is_none());
/// # drop((one, two));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    client: Arc<Client>,
    name: LockName,
    options: AcquireOptions,
}

impl RwLock {
    pub(crate) fn new(client: Arc<Client>, name: LockName, options: AcquireOptions) -> Self {
        Self { client, name, options }
    }

    /// The side that is shared.
    #[must_use]
    pub fn read(&self) -> Lock {
        self.side(Claim::reader())
    }

    /// The side that excludes everybody else.
    #[must_use]
    pub fn write(&self) -> Lock {
        self.side(Claim::writer())
    }

    fn side(&self, claim: Claim) -> Lock {
        Lock::new(Arc::clone(&self.client), self.name.clone(), claim, self.options.clone())
    }
}
