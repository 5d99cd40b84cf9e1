//! [`Semaphore`]: a limited number of permits, of which each holder takes some.

use std::sync::Arc;

use crate::{AcquireOptions, Claim, Error, Lock, LockName, client::Client};

/// A number of permits that are taken in portions. Made by [`Locks::semaphore`](crate::Locks::semaphore).
///
/// Use it to bound how much happens at the same time over all processes, such as the calls of a service that allows only a few. It does not
/// bound a rate: a permit that is released is free immediately.
///
/// First come, first served: small portions do not pass a large one at the head of the queue, so that it does not starve. All processes
/// have to name the same limit while the semaphore is in use; another limit is refused with
/// [`Error::ClaimMismatch`](crate::Error::ClaimMismatch). To change the limit, change the name too, or wait until the queue is empty.
///
/// ```
/// use lock_core::{DistributedLock, Locks, Memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), lock_core::Error> {
/// let api = Locks::new(Memory::new()).semaphore("api-calls", 8)?;
/// let three = api.permits(3)?.acquire().await?;
/// assert!(api.permits(6)?.try_acquire().await?.is_none());
/// # drop(three);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    client: Arc<Client>,
    name: LockName,
    limit: u32,
    options: AcquireOptions,
}

impl Semaphore {
    pub(crate) fn new(
        client: Arc<Client>,
        name: LockName,
        limit: u32,
        options: AcquireOptions,
    ) -> Result<Self, Error> {
        // A portion of one is valid exactly if the limit is.
        Claim::semaphore(1, limit)?;
        Ok(Self { client, name, limit, options })
    }

    /// A portion of `permits`, which are granted together or not at all.
    ///
    /// Ask for all that one step needs at once. Two holders that each wait for more while they keep what they have may wait for each other.
    ///
    /// # Errors
    /// [`Error::Input`] if it is 0 or more than the limit.
    pub fn permits(&self, permits: u32) -> Result<Lock, Error> {
        let claim = Claim::semaphore(permits, self.limit)?;
        Ok(Lock::new(Arc::clone(&self.client), self.name.clone(), claim, self.options.clone()))
    }
}
