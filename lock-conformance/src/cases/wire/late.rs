//! Requests that arrive after their caller gave up: none of them grants, extends or frees anything.

use std::time::Duration;

use futures_util::FutureExt;
use lock_core::{DistributedLock, Error, LostReason, Outage};

use super::proxied::{ProxiedClient, assert_holds_alone, error_of, renewed, warm};
use crate::{
    Client, Flow, Gate, Links, Newcomers, SLACK, TestEnv, Verb, Way,
    audit::{await_queue, eventually, soon, within},
    cases::{
        lease::{GRAIN, lease_end, lock_name, ms},
        steps::{long, mutex, pending, queue, queue_of, take_free},
    },
};

/// Holds the requests on the open connections until the gate opens. New connections are served.
fn hold_requests(proxied: &ProxiedClient) -> Gate {
    let gate = Gate::new();
    proxied.proxy.order(Links::Open, Way::Requests, &Flow::Hold(gate.clone()));
    gate
}

/// Lets the held requests arrive, and waits until the server has carried them out.
async fn arrive(proxied: &ProxiedClient, gate: &Gate) {
    assert!(gate.reached().now_or_never().is_some(), "nothing is late");
    gate.open();
    eventually("what was late is carried out", SLACK, || async { proxied.proxy.is_drained() }).await;
}

/// Waits until all pending leaves of the client are confirmed.
async fn settled(client: &Client) {
    client.locks.close(SLACK * 2).await.unwrap();
}

/// It takes neither a free lock, nor a place behind a holder.
pub(crate) async fn a_create_that_arrives_after_its_caller_gave_up_takes_nothing(env: TestEnv) {
    let other = env.client().await;
    for (free, trying) in [(true, true), (true, false), (false, false)] {
        let proxied = ProxiedClient::new(&env).await;
        let name = env.name(&format!("free: {free}, trying: {trying}"));
        warm(&proxied.client, &name).await;
        let held = if free { None } else { Some(take_free(&mutex(&other, &name)).await) };
        let gate = hold_requests(&proxied);
        let lock = mutex(&proxied.client, &name);
        let asking = async {
            if trying { lock.try_acquire().await.map(drop) } else { lock.acquire().await.map(drop) }
        };
        let error = error_of(&proxied, asking).await;
        assert!(matches!(error, Error::Backend { .. }), "{error}");
        settled(&proxied.client).await;
        arrive(&proxied, &gate).await;
        let rows = queue(&mutex(&other, &name)).await;
        match held {
            Some(held) => assert_holds_alone(&rows, &held),
            None => assert!(rows.is_empty(), "{rows:?}"),
        }
    }
}

/// A waiter that has left does not come back.
pub(crate) async fn a_look_that_arrives_late_takes_nothing(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name("job");
    let held = take_free(&mutex(&other, &name)).await;
    // The waiter looks again at a third of this ttl.
    let options = long().ttl(Duration::from_secs(3));
    let lock = proxied.client.mutex(&name).with_options(options);
    let waiting = tokio::spawn(async move { lock.acquire().await.map(drop) });
    queue_of(2, &mutex(&other, &name)).await;
    eventually("the answer to the create", SLACK, || async { proxied.asked.answers(Verb::Enter) > 0 }).await;
    let answered = proxied.asked.answers(Verb::Enter);
    let gate = hold_requests(&proxied);
    // The answer to a look that was on its way before does not count.
    eventually("a look that is not answered", SLACK, || async {
        proxied.asked.answers(Verb::Enter) > answered && gate.reached().now_or_never().is_some()
    })
    .await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    settled(&proxied.client).await;
    await_queue(&other, &name, 1).await;
    arrive(&proxied, &gate).await;
    assert_holds_alone(&queue(&mutex(&other, &name)).await, &held);
}

/// It frees neither the lock of another client, nor the next lock of its own client.
pub(crate) async fn a_leave_that_arrives_late_frees_nobody_else(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    for ours in [true, false] {
        let name = env.name(&format!("ours: {ours}"));
        // It waits through outages: it may get the connection that was refused last.
        let patient = long().outage(Outage::Wait);
        let next = mutex(if ours { &proxied.client } else { &other }, &name).with_options(patient);
        warm(&proxied.client, &name).await;
        let guard = take_free(&mutex(&proxied.client, &name)).await;
        let gate = hold_requests(&proxied);
        proxied.proxy.newcomers(Newcomers::Refuse);
        pending(soon("an answer", guard.release()).await);
        proxied.proxy.newcomers(Newcomers::Serve);
        // The keeper has sent the leave again, on another connection.
        let next = soon("the next grant", next.acquire()).await.unwrap();
        arrive(&proxied, &gate).await;
        assert_holds_alone(&queue(&mutex(&other, &name)).await, &next);
        next.extend().await.unwrap();
        next.release().await.unwrap().confirmed().unwrap();
    }
}

/// It extends neither the lease that has ended, nor that of the next holder.
pub(crate) async fn a_renewal_that_arrives_after_the_loss_extends_nothing(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name("job");
    let guard =
        take_free(&proxied.client.mutex(&name).with_options(long().ttl(Duration::from_secs(3)))).await;
    renewed(&proxied).await;
    proxied.proxy.newcomers(Newcomers::Refuse);
    let gate = hold_requests(&proxied);
    let reason = within("the loss", guard.ttl() + SLACK, guard.lost()).await;
    assert_eq!(reason, LostReason::Expired);
    proxied.proxy.newcomers(Newcomers::Serve);
    drop(guard);
    settled(&proxied.client).await;
    // A ttl much shorter than that of the renewal.
    let brief = other.mutex(&name).with_options(long().ttl(ms(800)).renew(false));
    let next = soon("the next grant", brief.acquire()).await.unwrap();
    let end_time = lease_end(&other, next.name(), next.entry_id()).await;
    arrive(&proxied, &gate).await;
    let extended = lease_end(&other, &lock_name(&name), next.entry_id()).await.since(end_time);
    assert!(extended <= GRAIN, "the lease of the next was extended by {extended:?}");
    let rows = queue(&brief).await;
    assert!(rows.iter().all(|row| row.entry == Some(next.entry_id())), "{rows:?}");
}
