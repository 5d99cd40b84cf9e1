//! Partitions in one direction: what one side sends arrives, and what it is sent does not.

use std::time::Duration;

use futures_util::future::join;
use lock_core::{DistributedLock, LostReason, Outage};

use super::proxied::{ProxiedClient, renewed};
use crate::{
    Flow, Gate, Links, Newcomers, SLACK, TestEnv, Way,
    audit::{assert_free, safety, within},
    cases::{
        lease::{deadline_at_least, ms, now},
        stall_tolerant::stall_tolerant,
        steps::{assert_lost, long, mutex, queue_of, take_free},
    },
};

/// Of a holder and of a waiter, in either direction. What was sent meanwhile arrives when the network is whole again.
pub(crate) async fn a_partition_in_one_direction_ends_a_lock_in_time_and_no_wait(env: TestEnv) {
    stall_tolerant(env, ms(2000), both_directions).await;
}

async fn both_directions(env: TestEnv, ttl: Duration) {
    join(one_direction(&env, Way::Requests, ttl), one_direction(&env, Way::Replies, ttl)).await;
}

async fn one_direction(env: &TestEnv, cut: Way, ttl: Duration) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(env).await);
    let name = |tag: &str| env.name(&format!("{tag} {cut:?} {ttl:?}"));
    let (job, wanted) = (name("job"), name("wanted"));
    let ahead = take_free(&mutex(&other, &wanted)).await;
    let lock = mutex(&proxied.client, &wanted).with_options(long().outage(Outage::Wait));
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
    queue_of(2, &mutex(&other, &wanted)).await;
    let guard = take_free(&proxied.client.mutex(&job).with_options(long().ttl(ttl))).await;
    renewed(&proxied).await;

    // No new connection can be opened, since that takes both directions.
    proxied.proxy.newcomers(Newcomers::Refuse);
    let gate = Gate::new();
    proxied.proxy.order(Links::All, cut, &Flow::Hold(gate.clone()));
    let deadline = deadline_at_least(&guard.hold());
    let lost = async {
        let reason = within("the loss", guard.ttl() + SLACK, guard.lost()).await;
        assert_eq!(reason, LostReason::Expired);
        safety(now() >= deadline, format_args!("lost {:?} before its deadline", deadline.since(now())));
    };
    let next = mutex(&other, &job);
    let granted = async {
        let next = within("the next grant", guard.ttl() * 2 + SLACK, next.acquire()).await.unwrap();
        safety(!guard.is_held(), "granted to others while it is held");
        next
    };
    let ((), next) = join(lost, granted).await;
    ahead.release().await.unwrap().confirmed().unwrap();

    gate.open();
    proxied.proxy.heal();
    let waiter = within("the waiter's grant", SLACK, waiting).await.unwrap();
    waiter.release().await.unwrap().confirmed().unwrap();
    assert_lost(guard.release().await);
    // What came late has taken nothing from the next, and leaves nothing behind.
    proxied.client.locks.close(SLACK * 2).await.unwrap();
    next.extend().await.unwrap();
    next.release().await.unwrap().confirmed().unwrap();
    for name in [&job, &wanted] {
        assert_free(&other, name).await;
    }
}
