//! [`HeldLocks`]: many locks that one process holds.

use std::{mem, time::Duration};

use futures_util::{StreamExt, TryStreamExt, stream};
use lock_core::{DistributedLock, Error, Guard, Locks};
use tokio::time::sleep;

use crate::{error::Result, timestamp::Timestamp};

/// Locks that are held until they are given back.
#[derive(Debug)]
pub(super) struct HeldLocks {
    locks: Locks,
    guards: Vec<Guard>,
}

/// So many are taken or released at the same time.
const CONCURRENCY: usize = 64;

impl HeldLocks {
    pub(super) fn new(locks: Locks) -> Self {
        Self { locks, guards: Vec::new() }
    }

    /// Takes one more lock.
    pub(super) async fn hold(&mut self, name: &str) -> Result<()> {
        self.guards.push(self.locks.mutex(name)?.acquire().await?);
        Ok(())
    }

    /// Takes so many locks, without contention.
    pub(super) async fn keep(&mut self, name: &str, count: usize) -> Result<()> {
        self.guards.reserve_exact(count);
        let locks = &self.locks;
        let take = |i| async move { locks.mutex(format!("{name}:{i:08}"))?.acquire().await };
        let mut taken = stream::iter(0..count).map(take).buffer_unordered(CONCURRENCY);
        while let Some(guard) = taken.try_next().await? {
            self.guards.push(guard);
        }
        Ok(())
    }

    /// Waits for the next renewal of the lock that was taken last, and tells until when it may be relied on then.
    pub(super) async fn next_renewal(&self) -> Result<Timestamp> {
        // The clock is not read in the same moment as what is left of the lease.
        const READING_ERROR: Duration = Duration::from_millis(50);
        let guard = self.guards.last().ok_or("no lock is held")?;
        let known = Timestamp::now().plus(guard.remaining());
        while guard.is_held() {
            let deadline = Timestamp::now().plus(guard.remaining());
            if deadline.since(known) > READING_ERROR {
                return Ok(deadline);
            }
            sleep(Duration::from_millis(2)).await;
        }
        Err("the lock was lost".into())
    }

    /// Releases all of them, and tells how many had been lost before.
    pub(super) async fn give_back(&mut self) -> Result<u64> {
        let guards = mem::take(&mut self.guards);
        let mut released = stream::iter(guards).map(Guard::release).buffer_unordered(CONCURRENCY);
        let mut lost = 0;
        while let Some(released) = released.next().await {
            match released {
                Ok(_) => {}
                Err(Error::Lost { .. }) => lost += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(lost)
    }
}
