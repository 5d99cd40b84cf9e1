//! [`HeldLocks`]: many locks that one process holds.

use std::{future::ready, mem, time::Duration};

use futures_util::{StreamExt, TryStreamExt, stream};
use lock_core::{AcquireOptions, DistributedLock, Error, Guard, Locks};

use crate::error::Result;

/// Locks that are held until they are given back.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks(Vec<Guard>);

/// So many are taken or released at the same time.
const CONCURRENCY: usize = 64;

impl HeldLocks {
    /// Takes so many locks, without contention.
    pub(crate) async fn take(&mut self, locks: &Locks, count: u64, ttl: Duration) -> Result<()> {
        self.0.reserve_exact(usize::try_from(count)?);
        let options = AcquireOptions::new().ttl(ttl);
        let take = |i| {
            let options = &options;
            async move { locks.mutex(format!("bench:held:{i:08}"))?.acquire_with(options).await }
        };
        let mut taken = stream::iter(0..count).map(take).buffer_unordered(CONCURRENCY);
        while let Some(guard) = taken.try_next().await? {
            self.0.push(guard);
        }
        Ok(())
    }

    /// Releases all of them, and tells how many had been lost before.
    pub(crate) async fn give_back(&mut self) -> Result<u64> {
        let guards = mem::take(&mut self.0);
        let released = stream::iter(guards).map(Guard::release).buffer_unordered(CONCURRENCY);
        let lost = released.filter(|released| ready(matches!(released, Err(Error::Lost { .. }))));
        Ok(lost.fold(0, |lost, _| ready(lost + 1)).await)
    }
}
