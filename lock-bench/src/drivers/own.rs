//! [`own`]: the driver of our locks.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{AcquireOptions, DistributedLock, Guard, Keeper, Locks, SystemEntropy};

use super::driver::{LibraryDriver, Lock, Role, System};
use crate::{error::Result, store::Store};

/// The permits of a semaphore, in all languages.
pub(crate) const PERMITS: usize = 8;

/// The driver of our locks, with a client of its own.
pub(crate) fn own(store: &dyn Store, ttl: Duration) -> Result<LibraryDriver> {
    let options = AcquireOptions::new().ttl(ttl);
    let locks =
        Locks::with(store.backend()?, Keeper::shared(), Arc::new(SystemEntropy)).with_options(options);
    Ok(LibraryDriver::new(Distlock(locks)))
}

struct Distlock(Locks);

#[async_trait]
impl System for Distlock {
    async fn lock(&self, name: &str, role: Role) -> Result<Box<dyn Lock>> {
        let lock: Arc<dyn DistributedLock> = match role {
            Role::Mutex => Arc::new(self.0.mutex(name)?),
            Role::Read => Arc::new(self.0.rwlock(name)?.read()),
            Role::Write => Arc::new(self.0.rwlock(name)?.write()),
            Role::Permit => Arc::new(self.0.semaphore(name, u32::try_from(PERMITS)?)?.permits(1)?),
        };
        Ok(Box::new(Contender { lock, guard: None }))
    }
}

struct Contender {
    lock: Arc<dyn DistributedLock>,
    guard: Option<Guard>,
}

#[async_trait]
impl Lock for Contender {
    async fn acquire(&mut self) -> Result<()> {
        self.guard = Some(self.lock.acquire().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<bool> {
        let guard = self.guard.take().ok_or("not held")?;
        Ok(guard.release().await?.confirmed().is_ok())
    }
}
