//! [`is_kept`]: whether a lock is kept through an outage, as long as that of the store itself was not too long.

use std::time::{Duration, Instant};

use lock_conformance::{Rival, audit::within};
use lock_core::Guard;

use super::{Client, LATE};
use crate::server::{Cluster, Witness};

/// For leases that have to outlast an election, which takes a second: a witness tells how long it took.
pub(crate) const KEPT: Duration = Duration::from_secs(12);

/// Looks whether anybody else can be granted a lock while it is held.
pub(crate) async fn assert_alone(guard: &Guard, other: &Client) {
    rival(guard, other).tries_enough().await;
}

/// What became of a lock in trouble: it was kept, or the cluster took no writes for so long that it could not be.
pub(crate) type Kept = Result<(), Duration>;

/// Looks whether a guard is still held, and whether anybody else can be, until its lease was extended by a cluster that takes
/// writes again.
pub(crate) async fn is_kept(guard: &Guard, other: &Client, witness: &Witness) -> Kept {
    let deadline = || Instant::now() + guard.remaining();
    let (before, mut rival) = (deadline(), rival(guard, other));
    let extended = async {
        while deadline() < before + KEPT / 4 && guard.is_held() {
            rival.tries().await;
        }
    };
    within("an extended lease", KEPT + LATE, extended).await;
    if guard.is_held() {
        rival.tries_enough().await;
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

fn rival<'a>(guard: &'a Guard, other: &Client) -> Rival<'a> {
    Rival::new(guard, other.mutex(guard.name().as_str()))
}
