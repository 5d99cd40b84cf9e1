//! [`ReadPermits`]: limits how many waiters read their queues at once.

use std::{pin::pin, time::Duration};

use lock_core::{BootTime, Keeper, sync::Mutex};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many waiters of a session read their queues at once.
const AT_ONCE: usize = 64;

/// Permits to read a queue. When a connection was made, all waiters of a session read their queues, and the session's heartbeats use the
/// same connection. With permits, only a few reads are ever ahead of a heartbeat.
pub(super) struct ReadPermits {
    semaphore: Semaphore,
    /// When a read with a permit was last answered.
    last_answer: Mutex<BootTime>,
}

impl ReadPermits {
    pub(super) fn new() -> Self {
        Self { semaphore: Semaphore::new(AT_ONCE), last_answer: Mutex::new(BootTime::new(Duration::ZERO)) }
    }

    /// Waits for a permit, as long as reads are answered. If none was for `patience`, the caller reads without a permit: those who have the
    /// permits may be futures that nobody polls.
    pub(super) async fn take(&self, keeper: &Keeper, patience: Duration) -> ReadPermit<'_> {
        let mut acquired = pin!(self.semaphore.acquire());
        let mut until = keeper.now() + patience;
        loop {
            if let Some(permit) = keeper.timeout_at(until, acquired.as_mut()).await {
                // The semaphore is never closed.
                return ReadPermit { permits: self, permit: permit.ok() };
            }
            until = *self.last_answer.lock() + patience;
            if until <= keeper.now() {
                return ReadPermit { permits: self, permit: None };
            }
        }
    }
}

/// The right to read a queue.
pub(crate) struct ReadPermit<'a> {
    permits: &'a ReadPermits,
    /// Given back on drop. `None` after too long a wait.
    permit: Option<SemaphorePermit<'a>>,
}

impl ReadPermit<'_> {
    /// Whether there was a permit in time.
    pub(super) fn is_granted(&self) -> bool {
        self.permit.is_some()
    }

    /// The read was answered.
    pub(crate) fn mark_answered(self, now: BootTime) {
        if self.is_granted() {
            *self.permits.last_answer.lock() = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BRIEF: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(20);

    async fn take_all<'a>(permits: &'a ReadPermits, keeper: &Keeper) -> Vec<ReadPermit<'a>> {
        let mut taken = Vec::new();
        for _ in 0..AT_ONCE {
            taken.push(permits.take(keeper, LONG).await);
        }
        taken
    }

    #[tokio::test]
    async fn there_are_so_many_and_one_that_is_given_back_is_the_next() {
        let (permits, keeper) = (ReadPermits::new(), Keeper::start().unwrap());
        let mut taken = take_all(&permits, &keeper).await;
        assert!(taken.iter().all(ReadPermit::is_granted));
        let next = async { permits.take(&keeper, LONG).await.is_granted() };
        let gives_back = async { drop(taken.pop()) };
        let (next, ()) = tokio::join!(next, gives_back);
        assert!(next);
    }

    #[tokio::test]
    async fn who_waits_while_no_read_is_answered_goes_without_a_permit() {
        let (permits, keeper) = (ReadPermits::new(), Keeper::start().unwrap());
        let mut taken = take_all(&permits, &keeper).await;
        let began = keeper.now();
        assert!(!permits.take(&keeper, BRIEF).await.is_granted());
        assert!(keeper.now() >= began + BRIEF, "nobody waited");

        let answered = keeper.now() + BRIEF * 4;
        taken.pop().unwrap().mark_answered(answered);
        taken.push(permits.take(&keeper, LONG).await);
        let without = permits.take(&keeper, BRIEF).await;
        assert!(!without.is_granted());
        assert!(keeper.now() >= answered + BRIEF, "reads are answered");
        without.mark_answered(keeper.now() + LONG);
        assert_eq!(*permits.last_answer.lock(), answered, "it had no permit");
    }
}
