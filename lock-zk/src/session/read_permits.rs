//! [`ReadPermits`]: limits how many waiters read their queues at once.

use std::time::Duration;

use lock_core::Keeper;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::Failure;

/// How many waiters of a session read their queues at once.
const AT_ONCE: usize = 64;

/// Permits to read a queue. When a connection was made, all waiters of a session read their queues, and the session's heartbeats use the
/// same connection. With permits, only a few reads are ever ahead of a heartbeat.
pub(super) struct ReadPermits(Semaphore);

impl ReadPermits {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }

    /// Waits for a permit, which is given back on drop. If there is none in time, the failure says that nothing was sent.
    pub(super) async fn take(
        &self,
        keeper: &Keeper,
        limit: Duration,
    ) -> Result<SemaphorePermit<'_>, Failure> {
        let permit = keeper.timeout_at(keeper.now() + limit, self.0.acquire()).await;
        // The semaphore is never closed.
        permit.and_then(Result::ok).ok_or_else(|| Failure::timed_out("a read permit", limit).unsent())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_are_so_many_and_one_that_is_given_back_is_the_next() {
        let (permits, keeper) = (ReadPermits::new(), Keeper::start().unwrap());
        let (brief, long) = (Duration::from_millis(50), Duration::from_secs(20));
        let mut taken = Vec::new();
        for _ in 0..AT_ONCE {
            taken.push(permits.take(&keeper, long).await.unwrap());
        }
        let refused = permits.take(&keeper, brief).await.map(drop).unwrap_err();
        assert!(refused.is_an_answer(), "nothing was asked: {refused}");
        let next = async { permits.take(&keeper, long).await.map(drop) };
        let gives_back = async { drop(taken.pop()) };
        let (next, ()) = tokio::join!(next, gives_back);
        next.unwrap();
    }
}
