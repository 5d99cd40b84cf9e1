//! Half-open connections: nothing arrives, and neither side gets an error.

use std::time::Duration;

use futures_util::future::join4;
use lock_core::{DistributedLock, Error, LostReason, Outage};

use super::proxied::{ProxiedClient, renewed, warm};
use crate::{
    Links, SLACK, TestEnv,
    audit::{assert_free, soon, within},
    cases::{
        lease::{ms, now},
        stall_tolerant::stall_tolerant,
        steps::{
            assert_held_alone, assert_lost, freed, long, mutex, pending, queue_of, refused, take, take_free,
        },
    },
};

/// The calls wait or try, with and without a lock that is held.
pub(crate) async fn every_call_ends_in_time_while_nothing_comes_through(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = |tag| env.name(tag);
    for tag in ["asked", "tried", "waited"] {
        warm(&proxied.client, &name(tag)).await;
    }
    let held = proxied.client.mutex(&name("held")).with_options(long().ttl(Duration::from_secs(3)));
    let (held, released) =
        (take_free(&held).await, take_free(&mutex(&proxied.client, &name("released"))).await);
    proxied.client.locks.ping().await.unwrap();
    proxied.proxy.silence(Links::All);

    let lock = |tag| mutex(&proxied.client, &name(tag));
    let waits = proxied.client.mutex(&name("waited")).with_options(long().wait(ms(500)).outage(Outage::Wait));
    let (asked, tried, waited) = (lock("asked"), lock("tried"), waits.acquire());
    let calls = join4(asked.acquire(), tried.try_acquire(), waited, released.release());
    let (asked, tried, waited, released) = soon("an end of every call", calls).await;
    assert!(matches!(refused(asked), Error::Backend { .. }));
    assert!(matches!(refused(tried), Error::Backend { .. }));
    assert!(matches!(refused(waited), Error::WaitTimeout { .. }));
    pending(released);
    let operator = proxied.client.locks.operator();
    assert!(matches!(
        soon("an end of a ping", proxied.client.locks.ping()).await,
        Err(Error::Backend { .. })
    ));
    assert!(soon("an end of a look", operator.queue(held.name())).await.is_err());
    assert!(soon("an end of an extension", held.extend()).await.is_err());
    assert_eq!(within("the loss", held.ttl() + SLACK, held.lost()).await, LostReason::Expired);
    assert_lost(soon("the release", held.release()).await);

    proxied.proxy.heal();
    proxied.client.locks.close(SLACK * 2).await.unwrap();
    for tag in ["asked", "tried", "waited", "held", "released"] {
        assert_free(&other, &name(tag)).await;
    }
}

/// New connections work, so there is enough time to renew the lock on one of them.
pub(crate) async fn a_connection_that_dies_in_silence_costs_no_lock(env: TestEnv) {
    stall_tolerant(env, ms(3000), dead_connections).await;
}

async fn dead_connections(env: TestEnv, ttl: Duration) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name(&format!("job {ttl:?}"));
    let guard = take_free(&proxied.client.mutex(&name).with_options(long().ttl(ttl))).await;
    renewed(&proxied).await;
    proxied.proxy.silence(Links::Open);
    let end_time = now() + guard.ttl() * 2;
    while now() < end_time {
        assert_held_alone(&guard, &mutex(&other, &name)).await;
        tokio::time::sleep(ms(20)).await;
    }
    // Released by the keeper, whose connection works.
    drop(guard);
    freed(&mutex(&other, &name)).await;
}

/// Waiters soon make up for the hints that they missed.
pub(crate) async fn waiters_go_on_when_the_network_is_back(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let names = ["one", "two"].map(|tag| env.name(tag));
    let mut waiting = Vec::new();
    let mut held = Vec::new();
    for name in &names {
        held.push(take_free(&mutex(&other, name)).await);
        // Its entry is in the queue before the waiter knows: the answer may be in flight when the silence begins.
        let lock = mutex(&proxied.client, name).with_options(long().outage(Outage::Wait));
        waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
        queue_of(2, &mutex(&other, name)).await;
    }
    proxied.proxy.silence(Links::All);
    for guard in held {
        guard.release().await.unwrap().confirmed().unwrap();
    }
    // Long enough that a waiter has failed to reconnect.
    tokio::time::sleep(Duration::from_secs(3)).await;
    proxied.proxy.heal();
    for waiter in waiting {
        let guard = within("a grant after the silence", SLACK, waiter).await.unwrap();
        guard.release().await.unwrap().confirmed().unwrap();
    }
    for name in &names {
        take(&mutex(&other, name)).await.release().await.unwrap();
    }
}
