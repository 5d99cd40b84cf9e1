//! [`is_kept`]: whether a lock is kept through an outage, as long as that of the store itself was not too long.

use std::time::{Duration, Instant};

use lock_conformance::audit::within;
use lock_core::{DistributedLock, Guard};
use tokio::time::timeout;

use super::{Client, LATE};
use crate::server::{Cluster, Witness};

/// For leases that have to outlast an election, which takes a second: a witness tells how long it took.
pub(crate) const KEPT: Duration = Duration::from_secs(12);

/// So many tries of somebody else have to be answered, or nobody looked whether a lock can be had that is held.
const ANSWERED: u32 = 20;

/// Somebody else, who tries all the time to have the lock.
struct Rival<'a> {
    client: &'a Client,
    tries: u32,
    answered: u32,
}

impl<'a> Rival<'a> {
    fn new(client: &'a Client) -> Self {
        Self { client, tries: 0, answered: 0 }
    }

    /// Tries once. It is granted nothing while the guard holds.
    async fn tries(&mut self, guard: &Guard) {
        self.tries += 1;
        // That nobody answers for a moment is no news.
        if let Ok(granted) = self.client.mutex(guard.name().as_str()).try_acquire().await {
            self.answered += 1;
            assert!(granted.is_none() || !guard.is_held(), "granted while it was held");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    /// Tries until enough was answered.
    async fn tries_enough(mut self, guard: &Guard) {
        let trying = async {
            while self.answered < ANSWERED {
                self.tries(guard).await;
            }
        };
        let enough = timeout(LATE * 2, trying).await;
        assert!(enough.is_ok(), "of {} tries only {} were answered", self.tries, self.answered);
    }
}

/// Looks all the time whether anybody else can be granted a lock while it is held.
pub(crate) async fn assert_alone(guard: &Guard, other: &Client) {
    Rival::new(other).tries_enough(guard).await;
}

/// What became of a lock in trouble: it was kept, or the cluster took no writes for so long that it could not be.
pub(crate) type Kept = Result<(), Duration>;

/// Looks whether a guard is still held, and whether anybody else can be, until its lease was extended by a cluster that takes
/// writes again.
pub(crate) async fn is_kept(guard: &Guard, other: &Client, witness: &Witness) -> Kept {
    let deadline = || Instant::now() + guard.remaining();
    let (before, mut rival) = (deadline(), Rival::new(other));
    let extended = async {
        while deadline() < before + KEPT / 4 && guard.is_held() {
            rival.tries(guard).await;
        }
    };
    within("an extended lease", KEPT + LATE, extended).await;
    if guard.is_held() {
        rival.tries_enough(guard).await;
    }
    if guard.is_held() {
        return Ok(());
    }
    // A lease is extended when a third of it is over, and a try that fails is repeated soon: the rest is for the outage.
    let outage = witness.longest_outage();
    assert!(outage >= KEPT / 2, "lost, though no write waited for more than {outage:?}: {:?}", guard.state());
    Err(outage)
}

/// Tries again on another cluster if one took no writes for longer than a lease lasts: that shows nothing of locks.
pub(crate) async fn on_a_cluster(case: impl AsyncFn(&Cluster) -> Kept) {
    let mut outages = Vec::new();
    for _ in 0..3 {
        let cluster = Cluster::start("case").await;
        match case(&cluster).await {
            Ok(()) => return,
            Err(outage) => outages.push(outage),
        }
    }
    panic!("each time the cluster took no writes for longer than a lease lasts: {outages:?}");
}
