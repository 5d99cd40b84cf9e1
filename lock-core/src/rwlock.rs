//! [`RwLock`]: many readers or one writer.

use std::sync::Arc;

use crate::{AcquireOptions, Claim, Lock, LockName, client::Client};

/// A lock that many readers share, or one writer has alone. Made by [`Locks::rwlock`](crate::Locks::rwlock).
///
/// Use it where readers hold the lock for long, or are many at the same time. Each reader has an entry and a lease in the store, and
/// costs as much as a mutex does: for short reads a mutex is as good.
///
/// First come, first served: a reader that comes after a waiting writer waits behind it, so neither side starves. A reader cannot become a
/// writer, because two readers that tried would wait for each other. Release, ask for the other side, and read again what may have changed
/// in between.
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

    /// The side that is shared: as many readers as come may hold it together.
    #[must_use]
    pub fn read(&self) -> Lock {
        self.side(Claim::reader())
    }

    /// The side that excludes everybody else: it waits for the readers ahead, and readers that come later wait for it.
    #[must_use]
    pub fn write(&self) -> Lock {
        self.side(Claim::writer())
    }

    fn side(&self, claim: Claim) -> Lock {
        Lock::new(Arc::clone(&self.client), self.name.clone(), claim, self.options.clone())
    }
}
