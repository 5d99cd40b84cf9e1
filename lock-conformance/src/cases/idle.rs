//! The cost of waiting while nothing happens.

use std::{sync::Arc, time::Duration};

use lock_core::DistributedLock;
use tokio::{task::JoinSet, time::Instant};

use super::steps::{long, mutex, take_free};
use crate::{SLACK, ScriptedFaults, TestEnv, Verb, audit::eventually, volume};

/// How many waiters are started at the same time. The cost of a crowd that arrives at once is another question.
const AT_ONCE: usize = 20;

/// What the waiters have asked, with at least one look each.
#[derive(Debug)]
struct Asked {
    looks: usize,
    /// Both ways, whatever else the client says meanwhile. `None` where there is no wire.
    bytes: Option<u64>,
}

/// The queue does not change. Each waiter looks now and then, which also renews its lease. It does so no more often, and with no more
/// bytes, in a long queue.
pub(super) async fn a_look_of_a_waiter_costs_the_same_however_many_wait(env: TestEnv) {
    let (few, many, ttl) = volume((20, 400, 3), (50, 2_000, 15));
    let ttl = Duration::from_secs(ttl);
    let (alone, in_a_crowd) = (idle(&env, few, ttl).await, idle(&env, many, ttl).await);
    println!("{few} who wait: {alone:?}; {many}: {in_a_crowd:?}");
    if let (Some(alone_bytes), Some(crowd_bytes)) = (alone.bytes, in_a_crowd.bytes) {
        // Among a few, what is said beside looks weighs more.
        let each = |bytes: u64, looks: usize| bytes / looks as u64;
        let (before, now) = (each(alone_bytes, alone.looks), each(crowd_bytes, in_a_crowd.looks));
        assert!(now <= before * 2, "{now} bytes for a look among {many}, and {before} among {few}");
    }
}

/// Lets so many wait, and counts what they ask when all of them stand in the queue.
async fn idle(env: &TestEnv, waiters: usize, ttl: Duration) -> Asked {
    let (holder, asked) = (env.client().await, ScriptedFaults::default());
    let name = env.name(&format!("job of {waiters}"));
    let held = take_free(&mutex(&holder, &name)).await;
    let proxy = env.has_wire().then(|| env.proxy());
    let layer = Arc::new(asked.clone());
    let client = match &proxy {
        Some(proxy) => env.client_by(proxy.address(), layer).await,
        None => env.client_through(&[layer]).await,
    };
    let mut waiting = JoinSet::new();
    for place in 1..=waiters {
        let lock = client.mutex(&name).with_options(long().ttl(ttl));
        waiting.spawn(async move { lock.acquire().await.map(drop) });
        answered(&asked, place.saturating_sub(AT_ONCE)).await;
    }
    answered(&asked, waiters).await;
    // Each has looked around by then, and again.
    answered(&asked, asked.answers(Verb::Enter) + waiters).await;
    let (began, before) =
        (Instant::now(), (asked.answers(Verb::Enter), proxy.as_ref().map(crate::Proxy::passed)));
    // Not until so many looks were made: then those who look too often would have made as many, and only sooner.
    tokio::time::sleep_until(began + ttl).await;
    answered(&asked, before.0 + waiters).await;
    let looks = asked.answers(Verb::Enter) - before.0;
    let bytes = proxy.as_ref().zip(before.1).map(|(proxy, before)| proxy.passed() - before);
    // At a third of its ttl each; and once more should a connection break.
    let rounds = (began.elapsed().as_millis() / (ttl / 3).as_millis()) as usize + 2;
    assert!(looks <= waiters * rounds, "{looks} looks of {waiters} in {rounds} rounds");
    if let Some(ended) = waiting.try_join_next() {
        panic!("somebody does not wait any more: {ended:?}");
    }
    waiting.shutdown().await;
    client.locks.close(SLACK * 2).await.unwrap();
    held.release().await.unwrap().confirmed().unwrap();
    Asked { looks, bytes }
}

/// Waits until so many places and looks were answered.
async fn answered(asked: &ScriptedFaults, count: usize) {
    let what = format!("{count} answers");
    eventually(&what, SLACK * 2, || async { asked.answers(Verb::Enter) >= count }).await;
}
