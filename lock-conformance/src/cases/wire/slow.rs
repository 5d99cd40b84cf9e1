//! Everything arrives, but late.

use std::time::Duration;

use lock_core::{DistributedLock, Error, Guard, LostReason};

use super::{Far, assert_holds_alone, renewed};
use crate::{
    Flow, Links, SLACK, Way, World,
    audit::{assert_free, within},
    cases::{
        lease::{deadline_at_least, ms, now, queued_behind},
        steady::steady,
        steps::{assert_held_alone, long, mutex, queue, take_free},
    },
};

/// A try is given up after a sixth of the lease, but its answer counts.
pub(crate) async fn a_lock_is_held_while_answers_take_longer_than_a_try_may(world: World) {
    // Longer would pass the second of silence after which ZooKeeper's clients give a connection up.
    steady(world, ms(2000), slow_answers).await;
}

async fn slow_answers(world: World, ttl: Duration) {
    let (other, far) = (world.client().await, Far::new(&world).await);
    let name = world.name(&format!("job {ttl:?}"));
    let guard = take_free(&far.client.mutex(&name).with_options(long().ttl(ttl))).await;
    renewed(&far).await;
    far.proxy.order(Links::All, Way::Replies, &Flow::Delay(guard.ttl() / 4));
    let end = now() + guard.ttl() * 3;
    while now() < end {
        assert_held_alone(&guard, &mutex(&other, &name)).await;
        tokio::time::sleep(ms(20)).await;
    }
}

/// It is over before it arrives, whichever way it is slow.
pub(crate) async fn a_grant_that_takes_longer_than_its_ttl_is_never_returned(world: World) {
    let (other, far) = (world.client().await, Far::new(&world).await);
    let name = world.name("job");
    let brief = long().ttl(ms(200)).renew(false);
    let lock = far.client.mutex(&name).with_options(brief);
    let guard: Guard = take_free(&lock).await;
    let ttl = guard.ttl();
    guard.release().await.unwrap();
    for way in [Way::Requests, Way::Replies] {
        far.proxy.order(Links::All, way, &Flow::Delay(ttl + ttl / 4));
        let answer = within("an answer", ttl * 10 + SLACK, lock.acquire()).await;
        // Too slow for the ttl, or so slow that the store counts as away.
        assert!(matches!(&answer, Err(Error::TooSlow { .. } | Error::Backend { .. })), "{answer:?}");
        far.proxy.heal();
        assert_free(&other, &name).await;
    }
}

/// Not before, and before anybody else has it; and what arrives afterwards takes nothing from the next.
pub(crate) async fn a_lock_whose_renewals_take_longer_than_its_ttl_is_lost_at_its_deadline(world: World) {
    let (other, far) = (world.client().await, Far::new(&world).await);
    let name = world.name("job");
    let guard = take_free(&far.client.mutex(&name).with_options(long().ttl(ms(900)))).await;
    let delay = guard.ttl() + guard.ttl() / 2;
    far.proxy.order(Links::All, Way::Requests, &Flow::Delay(delay));
    let deadline = deadline_at_least(&guard.hold());
    let waiting = tokio::spawn({
        let (lock, hold) = (mutex(&other, &name), guard.hold());
        async move {
            let next = lock.acquire().await.unwrap();
            (hold.is_held(), next)
        }
    });
    queued_behind(&other, &guard.hold()).await;
    assert_eq!(within("the loss", guard.ttl() + SLACK, guard.lost()).await, LostReason::Expired);
    assert!(now() >= deadline, "lost {:?} before its deadline", deadline.since(now()));
    let (held, next) = within("the next grant", guard.ttl() + SLACK, waiting).await.unwrap();
    assert!(!held, "granted to another while it was held");
    tokio::time::sleep(delay * 2).await;
    assert_holds_alone(&queue(&mutex(&other, &name)).await, &next);
    assert!(next.is_held() && !guard.is_held());
}
