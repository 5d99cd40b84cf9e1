//! [`ReadPermits`]: how many look around at once.

use std::time::Duration;

use lock_core::Keeper;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{client::timeout_at, error::Failure};

/// So many of those who wait under a session look around at once.
const AT_ONCE: usize = 64;

/// Permits to look around. When a connection is made, all who wait under a session have to, and its heartbeats go the same way: what then
/// stands before one of these is not much.
pub(super) struct ReadPermits(Semaphore);

impl ReadPermits {
    pub(super) fn new() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }

    /// A permit, until it is dropped. Whoever has none in time has asked for nothing.
    pub(super) async fn take(
        &self,
        keeper: &Keeper,
        limit: Duration,
    ) -> Result<SemaphorePermit<'_>, Failure> {
        let permit = timeout_at(keeper, keeper.now() + limit, self.0.acquire()).await;
        // Nobody closes them.
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
