//! Requests and replies that are lost.

use std::time::Duration;

use lock_core::{DistributedLock, Error, Outage};

use super::proxied::{ProxiedClient, assert_holds_alone, error_of, warm};
use crate::{
    Flow, Links, Newcomers, SLACK, TestEnv, Verb, Way,
    audit::{assert_free, eventually, soon, within},
    cases::{
        lease::ms,
        stall_tolerant::stall_tolerant,
        steps::{long, mutex, pending, queue, queue_of, take_free},
    },
};

/// Callers get an error, and do not wait until the store is back.
pub(crate) async fn a_request_that_is_lost_is_an_error_in_time_and_leaves_nothing(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name("job");
    let lock = mutex(&proxied.client, &name);
    for trying in [false, true] {
        warm(&proxied.client, &name).await;
        proxied.proxy.order(Links::Open, Way::Requests, &Flow::Lose);
        let asking = async {
            if trying { lock.try_acquire().await.map(drop) } else { lock.acquire().await.map(drop) }
        };
        let error = error_of(&proxied, asking).await;
        assert!(matches!(error, Error::Backend { .. }), "{error}");
        assert_free(&other, &name).await;
    }
    soon("a grant by a new connection", lock.acquire()).await.unwrap().release().await.unwrap();
}

/// It asks again, and still has its place.
pub(crate) async fn a_waiter_whose_requests_are_lost_keeps_its_place(env: TestEnv) {
    stall_tolerant(env, ms(6000), lost_looks).await;
}

async fn lost_looks(env: TestEnv, ttl: Duration) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name(&format!("job {ttl:?}"));
    let held = take_free(&mutex(&other, &name)).await;
    let before = proxied.asked.answers(Verb::Enter);
    let waiting = tokio::spawn({
        let (lock, options) = (proxied.client.mutex(&name), long().ttl(ttl));
        async move { lock.acquire_with(&options).await.unwrap() }
    });
    let place = queue_of(2, &mutex(&other, &name)).await.remove(1);
    // Its entry is in the queue before the answer arrives, and a loss of that answer is an error.
    eventually("a place in the queue", SLACK, || async { proxied.asked.answers(Verb::Enter) > before }).await;
    let answered = proxied.asked.answers(Verb::Enter);
    proxied.proxy.order(Links::Open, Way::Requests, &Flow::Lose);
    // The look that is lost, and the next one.
    let two_more = || async { proxied.asked.answers(Verb::Enter) >= answered + 2 };
    eventually("two more looks", ttl + SLACK, two_more).await;
    held.release().await.unwrap().confirmed().unwrap();
    let guard = within("the grant", ttl / 3 + SLACK, waiting).await.unwrap();
    assert_eq!((Some(guard.entry_id()), Some(guard.token())), (place.entry, place.token));
    guard.release().await.unwrap().confirmed().unwrap();
}

/// The error is not "busy", which would say that another client holds the lock: what became of the request is unknown (C7).
pub(crate) async fn an_acquisition_whose_reply_is_lost_is_no_refusal_and_leaves_nothing(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name("job");
    let lock = mutex(&proxied.client, &name);
    for trying in [true, false] {
        warm(&proxied.client, &name).await;
        proxied.proxy.order(Links::Open, Way::Replies, &Flow::Lose);
        let asking = async {
            if trying { lock.try_acquire().await.map(drop) } else { lock.acquire().await.map(drop) }
        };
        let theirs = mutex(&other, &name);
        // On some stores a try first looks, and has no entry before the answer.
        let seen = async {
            if !trying {
                queue_of(1, &theirs).await;
            }
        };
        let (error, ()) = futures_util::future::join(error_of(&proxied, asking), seen).await;
        assert!(matches!(error, Error::Backend { .. }), "{error}");
        // Long before the ttl.
        assert_free(&other, &name).await;
    }
}

/// The repeated request finds the entry that the lost answer had granted.
pub(crate) async fn an_acquisition_whose_reply_is_lost_is_repeated_as_the_same_entry(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name("job");
    warm(&proxied.client, &name).await;
    proxied.proxy.order(Links::Open, Way::Replies, &Flow::Lose);
    let lock = mutex(&proxied.client, &name).with_options(long().outage(Outage::Wait));
    let acquiring = tokio::spawn(async move { lock.acquire().await.unwrap() });
    let lost = queue_of(1, &mutex(&other, &name)).await;
    let guard = soon("the grant", acquiring).await.unwrap();
    assert_holds_alone(&lost, &guard);
    assert_holds_alone(&queue(&mutex(&other, &name)).await, &guard);
    guard.release().await.unwrap().confirmed().unwrap();
    assert_free(&other, &name).await;
}

/// Other clients get the lock before the caller of the release knows the outcome.
pub(crate) async fn a_release_whose_reply_is_lost_is_unconfirmed_and_frees_the_lock(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name("job");
    warm(&proxied.client, &name).await;
    let guard = take_free(&mutex(&proxied.client, &name)).await;
    proxied.proxy.order(Links::Open, Way::Replies, &Flow::Lose);
    // No request after the release arrives, so only the release can have freed the lock.
    proxied.proxy.newcomers(Newcomers::Refuse);
    let granted = mutex(&other, &name);
    let unanswered = soon("the error", guard.release());
    let granted = soon("the next grant", granted.acquire());
    let (released, next) = futures_util::future::join(unanswered, granted).await;
    pending(released);
    let next = next.unwrap();
    proxied.proxy.newcomers(Newcomers::Serve);
    // The keeper repeats the leave until it is confirmed, which takes nothing from the current holder.
    proxied.client.locks.close(SLACK * 2).await.unwrap();
    assert_holds_alone(&queue(&mutex(&other, &name)).await, &next);
    next.release().await.unwrap().confirmed().unwrap();
}
