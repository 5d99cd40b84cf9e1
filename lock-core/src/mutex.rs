//! [`Mutex`]: one holder.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{AcquireOptions, Claim, DistributedLock, Error, Guard, Lock, LockName, QueueRow, client::Client};

/// A lock with one holder, first come, first served. Made by [`Locks::mutex`](crate::Locks::mutex).
///
/// It is not re-entrant: whoever asks for it again while holding it waits for himself.
#[derive(Clone, Debug)]
pub struct Mutex(Lock);

impl Mutex {
    pub(crate) fn new(client: Arc<Client>, name: LockName, options: AcquireOptions) -> Self {
        Self(Lock::new(client, name, Claim::mutex(), options))
    }

    /// The same mutex with options of its own.
    #[must_use]
    pub fn with_options(self, options: AcquireOptions) -> Self {
        Self(self.0.with_options(options))
    }
}

#[async_trait]
impl DistributedLock for Mutex {
    fn name(&self) -> &LockName {
        self.0.name()
    }

    fn options(&self) -> &AcquireOptions {
        self.0.options()
    }

    async fn acquire_with(&self, options: &AcquireOptions) -> Result<Guard, Error> {
        self.0.acquire_with(options).await
    }

    async fn try_acquire_with(&self, options: &AcquireOptions) -> Result<Option<Guard>, Error> {
        self.0.try_acquire_with(options).await
    }

    async fn queue(&self) -> Result<Vec<QueueRow>, Error> {
        self.0.queue().await
    }
}
