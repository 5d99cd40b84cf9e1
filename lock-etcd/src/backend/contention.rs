//! [`ContentionCache`]: which queues are contended.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lock_core::{BootTime, Keeper, sync::Mutex};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The number of entries in the cache. A name shares its entry with all names that have the same hash.
const NAMES: u64 = 1024;

/// The maximum number of concurrent reads of one queue. A read takes etcd longer the longer the queue is, and etcd answers one read after
/// another: of a thousand that came together, the last would be answered after its time limit, and be sent again.
const MAX_CONCURRENT_READS: usize = 16;

/// What this process knows about queues, to choose the right request for each.
///
/// This only affects speed: a client that is wrong about a queue sends one transaction more, or one that is longer than
/// needed. So names may share an entry, and the cache does not grow with the number of names.
pub(crate) struct ContentionCache {
    entries: Box<[QueueContention]>,
    hashes: RandomState,
}

/// What is known about the queue of one name.
pub(crate) struct QueueContention {
    /// Whether its queue was not empty when it was last seen.
    contended: AtomicBool,
    reads: Semaphore,
    /// When a read was last answered.
    last_answer: Mutex<BootTime>,
}

impl ContentionCache {
    pub(crate) fn new() -> Self {
        let unknown = || QueueContention {
            contended: AtomicBool::new(false),
            reads: Semaphore::new(MAX_CONCURRENT_READS),
            last_answer: Mutex::new(BootTime::new(Duration::ZERO)),
        };
        Self { entries: (0..NAMES).map(|_| unknown()).collect(), hashes: RandomState::new() }
    }

    /// What is known about the queue of a name.
    pub(crate) fn at(&self, name: &str) -> &QueueContention {
        // The low bits of a hash are as good as the others.
        &self.entries[(self.hashes.hash_one(name) % NAMES) as usize]
    }
}

impl QueueContention {
    /// Whether the queue was not empty when it was last seen.
    pub(crate) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Relaxed)
    }

    /// Records whether the queue is contended.
    pub(crate) fn set_contended(&self, contended: bool) {
        // Mostly nothing changes, and a value that is only read stays in the caches of all processors.
        if self.is_contended() != contended {
            self.contended.store(contended, Ordering::Relaxed);
        }
    }

    /// Waits for a permit to read the queue, as long as reads are answered. If no read was answered for `patience`, the caller reads
    /// without a permit, and its error shows what is wrong.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(crate) async fn read_permit(&self, keeper: &Keeper, patience: Duration) -> ReadPermit<'_> {
        let grant = |permit| ReadPermit { contention: self, keeper: keeper.clone(), permit };
        if let Ok(permit) = self.reads.try_acquire() {
            return grant(Some(permit));
        }
        let mut until = keeper.now() + patience;
        loop {
            if let Some(permit) = keeper.timeout_at(until, self.reads.acquire()).await {
                // The semaphore is never closed.
                return grant(permit.ok());
            }
            let patient_until = *self.last_answer.lock() + patience;
            if patient_until <= keeper.now() {
                return grant(None);
            }
            until = patient_until;
        }
    }
}

/// A permit to read a queue.
pub(crate) struct ReadPermit<'a> {
    contention: &'a QueueContention,
    keeper: Keeper,
    /// Given back on drop. `None` after too long a wait.
    permit: Option<SemaphorePermit<'a>>,
}

impl ReadPermit<'_> {
    /// The read was answered.
    pub(crate) fn mark_answered(self) {
        if self.permit.is_none() {
            return;
        }
        *self.contention.last_answer.lock() = self.keeper.now();
    }
}

impl fmt::Debug for ContentionCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contended = self.entries.iter().filter(|queue| queue.is_contended()).count();
        f.debug_struct("ContentionCache").field("contended", &contended).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_name_is_as_it_was_seen_last_and_free_before() {
        let cache = ContentionCache::new();
        assert!(!cache.at("a").is_contended());
        cache.at("a").set_contended(true);
        assert!(cache.at("a").is_contended());
        cache.at("a").set_contended(false);
        assert!(!cache.at("a").is_contended());
    }

    #[test]
    fn hardly_any_two_names_share_an_entry() {
        let cache = ContentionCache::new();
        cache.at("a").set_contended(true);
        let shared = (0..1000).filter(|i| cache.at(&format!("b {i}")).is_contended()).count();
        assert!(shared < 20, "{shared} of 1000");
    }

    #[tokio::test]
    async fn a_read_waits_for_its_permit_while_others_are_answered_and_no_longer() {
        const PATIENCE: Duration = Duration::from_millis(200);
        let (cache, keeper) = (ContentionCache::new(), Keeper::start().unwrap());
        let contention = cache.at("a");
        let mut permits = Vec::new();
        for _ in 0..MAX_CONCURRENT_READS {
            permits.push(contention.read_permit(&keeper, PATIENCE).await);
        }
        let started = Instant::now();
        let answering = async {
            for _ in 0..4 {
                tokio::time::sleep(PATIENCE / 2).await;
                *contention.last_answer.lock() = keeper.now();
            }
        };
        let (without, ()) = tokio::join!(contention.read_permit(&keeper, PATIENCE), answering);
        assert!(without.permit.is_none());
        assert!(started.elapsed() >= PATIENCE * 2 + PATIENCE, "not while reads were answered");
        permits.pop();
        assert!(contention.read_permit(&keeper, PATIENCE).await.permit.is_some());
    }
}
