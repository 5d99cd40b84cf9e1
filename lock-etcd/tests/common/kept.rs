//! [`is_kept`]: checks that a lock is kept through an outage, unless the store itself was away for too long.

use std::{
    panic::Location,
    time::{Duration, Instant},
};

use lock_conformance::{Rival, audit::within, excused_by_outage};
use lock_core::Guard;

use super::{Client, LATE};
use crate::server::{Cluster, Witness};

/// The ttl of leases that have to outlast an election, which takes a second. A witness measures how long it took.
pub(crate) const KEPT: Duration = Duration::from_secs(12);

/// Checks that no other client is granted a lock while it is held.
pub(crate) async fn assert_alone(guard: &Guard, other: &Client) {
    rival(guard, other).tries_enough().await;
}

/// The outcome for a lock in an outage: it was kept, or the cluster took no writes for so long that it could not be.
pub(crate) type Kept = Result<(), Duration>;

/// Checks that a guard is still held, and that no other client is granted its lock, until a cluster that takes writes again has extended
/// its lease.
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
    // A lease is extended when a third of it is over, and a failed attempt is repeated soon: the rest of the lease is for the outage.
    let outage = witness.longest_outage();
    assert!(outage >= KEPT / 2, "lost, though no write waited for more than {outage:?}: {:?}", guard.state());
    Err(outage)
}

/// Runs a case again on another cluster if the first took no writes for longer than a lease lasts, because that shows nothing about locks.
/// The first outage is recorded as an excuse, with the place of the call. Nothing excuses a second one.
#[allow(clippy::future_not_send, reason = "a test waits for it where it is")]
#[track_caller]
pub(crate) fn on_a_cluster(case: impl AsyncFn(&Cluster) -> Kept) -> impl Future<Output = ()> {
    let place = Location::caller().to_string();
    async move {
        let on_another = async || case(&Cluster::start("case").await).await;
        if let Err(again) = once_more(on_another, |outage| excused_by_outage(&place, "etcd", outage)).await {
            panic!("once more the cluster took no writes for longer than a lease lasts: {again:?}");
        }
    }
}

async fn once_more(case: impl AsyncFn() -> Kept, excused: impl FnOnce(Duration)) -> Kept {
    let Err(outage) = case().await else { return Ok(()) };
    excused(outage);
    case().await
}

fn rival<'a>(guard: &'a Guard, other: &Client) -> Rival<'a> {
    Rival::new(guard, other.mutex(guard.name().as_str()))
}

mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// Runs a case that has these outcomes one after another. Returns its result, how often it ran, and the excused outages.
    #[allow(clippy::future_not_send, reason = "a test waits for it where it is")]
    async fn runs(outcomes: &[Kept]) -> (Kept, usize, Vec<Duration>) {
        let (runs, excuses) = (Cell::new(0), RefCell::<Vec<Duration>>::default());
        let case = async || outcomes[runs.replace(runs.get() + 1)];
        let kept = once_more(case, |outage| excuses.borrow_mut().push(outage)).await;
        (kept, runs.get(), excuses.take())
    }

    #[tokio::test]
    async fn an_outage_is_written_down_and_its_case_repeated_once() {
        assert_eq!(runs(&[Ok(())]).await, (Ok(()), 1, vec![]));
        assert_eq!(runs(&[Err(KEPT), Ok(())]).await, (Ok(()), 2, vec![KEPT]));
        assert_eq!(runs(&[Err(KEPT), Err(LATE), Ok(())]).await, (Err(LATE), 2, vec![KEPT]));
    }
}
