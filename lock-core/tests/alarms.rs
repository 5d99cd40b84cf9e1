//! What the keeper does when the store says that a lease may be lost, on simulated time.

mod support;

use std::time::Duration;

use lock_core::{AcquireOptions, DistributedLock, Guard, HoldState, LockName, LostReason};
use support::{Client, Fault, Sim, Verb, assert_at, lease, ms, s, sleep};
use tokio::sync::mpsc;

const TTL: Duration = s(12);

fn options() -> AcquireOptions {
    AcquireOptions::new().ttl(TTL)
}

#[tokio::test(start_paused = true)]
async fn an_evicted_holder_knows_it_at_once_and_not_at_its_next_renewal() {
    let sim = Sim::new();
    let client = sim.client();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    sleep(s(1)).await;
    let evicted = sim.now();
    client.locks.operator().evict(guard.name(), guard.entry_id()).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Gone);
    assert_at(sim.now(), evicted);
}

/// The answer that grants the lock is older than the alarm.
#[tokio::test(start_paused = true)]
async fn who_was_evicted_while_its_grant_was_in_flight_knows_it_at_once() {
    let sim = Sim::new();
    let client = sim.client();
    // So that the keeper knows the entry, and listens, before the answer.
    client.wire.share_leases();
    client.wire.once(Verb::Enter, Fault::Late(s(2)));
    let lock = client.locks.mutex("a").unwrap();
    let taking = tokio::spawn(async move { lock.acquire_with(&options()).await.unwrap() });
    sleep(s(1)).await;
    let entry = sim.rows("a").await[0].entry.unwrap();
    client.locks.operator().evict(&LockName::new("a").unwrap(), entry).await.unwrap();
    let (guard, granted) = (taking.await.unwrap(), sim.now());
    assert_eq!((guard.entry_id(), guard.lost().await), (entry, LostReason::Gone));
    assert_at(sim.now(), granted);
}

/// Alarms of an entry that the store has: nothing of another name is evicted.
async fn alarm_falsely(client: &Client, guards: &[Guard]) {
    let other = LockName::new("another").unwrap();
    for guard in guards {
        client.locks.operator().evict(&other, guard.entry_id()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_alarm_shows_the_loss_of_a_lock_that_is_not_renewed() {
    let sim = Sim::new();
    let client = sim.client();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options().renew(false)).await.unwrap();
    sleep(s(1)).await;
    let evicted = sim.now();
    client.locks.operator().evict(guard.name(), guard.entry_id()).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Gone);
    assert_at(sim.now(), evicted);
}

#[tokio::test(start_paused = true)]
async fn a_false_alarm_does_not_prolong_a_lock_that_is_not_renewed() {
    let sim = Sim::new();
    let client = sim.client();
    let start = sim.now();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options().renew(false)).await.unwrap();
    sleep(s(8)).await;
    alarm_falsely(&client, std::slice::from_ref(&guard)).await;
    sleep(s(1)).await;
    assert_eq!(client.wire.sent(Verb::Renew).len(), 1, "the store is asked");
    assert_eq!(guard.state(), HoldState::Held);
    guard.lost().await;
    assert_at(sim.now(), start + lease(TTL));
    sleep(ms(1)).await;
    assert!(sim.rows("a").await.is_empty(), "a lost lock is left");
}

/// So many are lost at the same time that the keeper tells them in several turns.
#[tokio::test(start_paused = true)]
async fn an_alarm_is_followed_up_while_more_losses_are_due() {
    let sim = Sim::new();
    let client = sim.client();
    let guard = client.locks.mutex("a").unwrap().acquire_with(&options()).await.unwrap();
    let (tell, mut told) = mpsc::unbounded_channel();
    let mut others = Vec::new();
    for i in 0..3_000 {
        let lock = client.locks.mutex(format!("{i}")).unwrap();
        let other = lock.acquire_with(&options().renew(false)).await.unwrap();
        let (lost, tell) = (other.lost(), tell.clone());
        tokio::spawn(async move { tell.send(lost.await) });
        others.push(other);
    }
    told.recv().await.unwrap();
    client.locks.operator().evict(guard.name(), guard.entry_id()).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Gone);
    let before = told.len() + 1;
    assert!(before < others.len(), "all {before} others were told first");
}

#[tokio::test(start_paused = true)]
async fn alarms_that_come_together_share_requests() {
    let sim = Sim::new();
    let client = sim.client();
    let mut guards = Vec::new();
    for i in 0..3_000 {
        guards.push(client.locks.mutex(format!("{i}")).unwrap().acquire_with(&options()).await.unwrap());
    }
    alarm_falsely(&client, &guards).await;
    sleep(ms(1)).await;
    let (requests, asked) = (client.wire.sent(Verb::Renew).len(), client.wire.entries(Verb::Renew));
    assert_eq!(asked, guards.len());
    assert!(requests <= asked / 100, "{requests} requests for {asked} alarms");
    assert!(guards.iter().all(|guard| guard.state() == HoldState::Held));
}
