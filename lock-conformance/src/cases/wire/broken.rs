//! Connections that are reset, at any byte.

use lock_core::{DistributedLock, Outage};

use super::proxied::{ProxiedClient, assert_holds_alone, warm};
use crate::{
    Client, Flow, Links, TestEnv, Verb, Way,
    audit::soon,
    cases::steps::{long, mutex, queue, queue_of, take, take_free},
    volume,
};

/// No answer of any backend is longer.
const LONGEST: usize = 100_000;

/// The server has carried out the request, and the client must find out.
pub(crate) async fn a_reply_cut_at_any_byte_is_asked_for_again(env: TestEnv) {
    cut_everywhere(&env, Way::Replies).await;
}

/// The server has received no complete request, or all of it.
pub(crate) async fn a_request_cut_at_any_byte_is_sent_again(env: TestEnv) {
    cut_everywhere(&env, Way::Requests).await;
}

/// Cuts after more and more bytes, until all bytes arrive: in the gate after every seventh byte, and after each of the last ones.
async fn cut_everywhere(env: &TestEnv, way: Way) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(env).await);
    let step = volume(7, 1);
    for verb in [Verb::Enter, Verb::Leave] {
        let mut bytes = 0;
        while !survives_a_cut(&other, &proxied, &env.name("job"), way, verb, bytes).await {
            bytes += step;
            assert!(bytes < LONGEST, "no answer is that long");
        }
        for bytes in (bytes + 1).saturating_sub(step)..bytes {
            survives_a_cut(&other, &proxied, &env.name("job"), way, verb, bytes).await;
        }
    }
}

/// Takes and releases a lock, one of which is cut after this many bytes. Returns whether all bytes arrived.
async fn survives_a_cut(
    other: &Client,
    proxied: &ProxiedClient,
    name: &str,
    way: Way,
    verb: Verb,
    bytes: usize,
) -> bool {
    let lock = mutex(&proxied.client, name);
    warm(&proxied.client, name).await;
    let cut = || proxied.proxy.order(Links::Open, way, &Flow::Cut(bytes));
    let calls = proxied.asked.calls(verb);
    if verb == Verb::Enter {
        cut();
    }
    let guard = soon("the grant", lock.acquire()).await.unwrap_or_else(|error| panic!("{bytes}: {error}"));
    proxied.proxy.heal();
    assert_holds_alone(&queue(&mutex(other, name)).await, &guard);
    if verb == Verb::Leave {
        cut();
    }
    let released = soon("the release", guard.release()).await;
    released.unwrap_or_else(|error| panic!("{bytes}: {error}")).confirmed().unwrap();
    proxied.proxy.heal();
    assert!(queue(&mutex(other, name)).await.is_empty(), "{bytes}: it is not free");
    proxied.asked.calls(verb) == calls + 1
}

/// The connections are reset again and again, and no other client passes the waiter.
pub(crate) async fn a_waiter_keeps_its_place_when_its_connections_are_reset(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name("job");
    let held = take_free(&mutex(&other, &name)).await;
    // Others see its entry in the queue before it has the answer. Until then, it survives two breaks in a row only if it waits through
    // outages.
    let patient = long().outage(Outage::Wait);
    let [first, second] = [&proxied.client, &other].map(|client| {
        let lock = mutex(client, &name).with_options(patient.clone());
        async move { lock.acquire().await.unwrap() }
    });
    let first = tokio::spawn(first);
    queue_of(2, &mutex(&other, &name)).await;
    let second = tokio::spawn(second);
    let places: Vec<_> =
        queue_of(3, &mutex(&other, &name)).await.iter().map(|row| (row.entry, row.token)).collect();
    for _ in 0..5 {
        proxied.proxy.reset(Links::All);
        // The connection may already be open again.
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
        let now: Vec<_> =
            queue(&mutex(&other, &name)).await.iter().map(|row| (row.entry, row.token)).collect();
        assert_eq!(now, places);
    }
    held.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the first in the queue", first).await.unwrap();
    assert_eq!((Some(guard.entry_id()), Some(guard.token())), places[1]);
    guard.release().await.unwrap().confirmed().unwrap();
    let guard = soon("the second", second).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    take(&mutex(&proxied.client, &name)).await.release().await.unwrap();
}
