//! The cost of waiting while nothing happens.

use std::{sync::Arc, time::Duration};

use lock_core::DistributedLock;
use tokio::{task::JoinSet, time::Instant};

use super::steps::{long, mutex, take_free};
use crate::{SLACK, ScriptedFaults, TestEnv, Verb, audit::eventually, volume};

/// How many waiters are started at the same time. This case is not about the cost of a crowd that arrives at once.
const AT_ONCE: usize = 20;

/// What the waiters have requested, with at least one look each.
#[derive(Debug)]
struct Asked {
    looks: usize,
    /// Bytes in both directions, including everything else that the client sends meanwhile. `None` if there is no wire.
    bytes: Option<u64>,
}

/// While the queue does not change, each waiter looks from time to time, which also renews its lease. In a long queue it looks no more
/// often, and with no more bytes.
pub(super) async fn a_look_of_a_waiter_costs_the_same_however_many_wait(env: TestEnv) {
    let (few, many, ttl) = volume((20, 400, 3), (50, 2_000, 15));
    let ttl = Duration::from_secs(ttl);
    let (alone, in_a_crowd) = (idle(&env, few, ttl).await, idle(&env, many, ttl).await);
    println!("{few} who wait: {alone:?}; {many}: {in_a_crowd:?}");
    if let (Some(alone_bytes), Some(crowd_bytes)) = (alone.bytes, in_a_crowd.bytes) {
        // With few waiters, the traffic beside looks counts more.
        let each = |bytes: u64, looks: usize| bytes / looks as u64;
        let (before, now) = (each(alone_bytes, alone.looks), each(crowd_bytes, in_a_crowd.looks));
        assert!(now <= before * 2, "{now} bytes for a look among {many}, and {before} among {few}");
    }
}

/// Starts this many waiters, and counts what they request when all of them are in the queue.
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
    // By then, each has looked twice.
    answered(&asked, asked.answers(Verb::Enter) + waiters).await;
    let (began, before) =
        (Instant::now(), (asked.answers(Verb::Enter), proxy.as_ref().map(crate::Proxy::passed)));
    // The time is fixed, not the number of looks: waiters that look too often would make that number of looks, only sooner.
    tokio::time::sleep_until(began + ttl).await;
    answered(&asked, before.0 + waiters).await;
    let looks = asked.answers(Verb::Enter) - before.0;
    let bytes = proxy.as_ref().zip(before.1).map(|(proxy, before)| proxy.passed() - before);
    // Each looks at a third of its ttl; and once more if a connection breaks.
    let rounds = (began.elapsed().as_millis() / (ttl / 3).as_millis()) as usize + 2;
    assert!(looks <= waiters * rounds, "{looks} looks of {waiters} in {rounds} rounds");
    if let Some(ended) = waiting.try_join_next() {
        panic!("a waiter does not wait any more: {ended:?}");
    }
    waiting.shutdown().await;
    client.locks.close(SLACK * 2).await.unwrap();
    held.release().await.unwrap().confirmed().unwrap();
    Asked { looks, bytes }
}

/// Waits until this many creates and looks were answered.
async fn answered(asked: &ScriptedFaults, count: usize) {
    let what = format!("{count} answers");
    eventually(&what, SLACK * 2, || async { asked.answers(Verb::Enter) >= count }).await;
}
