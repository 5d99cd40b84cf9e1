//! Very many locks in one process. `lock-bench` measures the speed; these tests measure memory and counts.

mod common;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use common::*;
use futures_util::{StreamExt, stream};
use lock_conformance::{SLACK, Usage, audit::eventually};
use lock_core::{AcquireOptions, DistributedLock, Guard, Keeper, Locks, Memory, SystemEntropy};
use lock_redis::{Redis, RedisConfig};

const LOCKS: u64 = 10_000;

/// Short enough to wait for several rounds of renewals, and long enough for a busy machine.
const TTL: Duration = Duration::from_secs(6);

/// Very many locks keep the machine busy, so these tests run when no other does.
mod alone {
    use lock_conformance::alone;

    use super::*;

    #[test]
    fn ten_thousand_locks_are_kept_by_few_requests_and_take_a_kibibyte_each() {
        alone("alone::ten_thousand_locks_are_kept_by_few_requests_and_take_a_kibibyte_each", || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            runtime.unwrap().block_on(keep_ten_thousand());
        });
    }

    #[tokio::test]
    async fn two_thousand_waiters_of_one_process_are_served_in_their_order() {
        let server = Server::start();
        let keeper = Keeper::start().unwrap();
        // On a busy machine, two thousand at once are not all answered within the two seconds that a command has by default.
        let config: RedisConfig = format!("{}?command_timeout=60s", server.url()).parse().unwrap();
        let redis = Redis::new(config, &keeper).unwrap();
        serve_all(&Locks::with(Arc::new(redis), keeper, Arc::new(SystemEntropy))).await;
    }

    #[tokio::test]
    async fn so_are_they_by_the_memory_of_the_process() {
        serve_all(&Locks::new(Memory::new())).await;
    }
}

async fn keep_ten_thousand() {
    let server = Server::start();
    let keeper = Keeper::start().unwrap();
    let config: RedisConfig = server.url().parse().unwrap();
    let redis = Redis::new(config, &keeper).unwrap();
    let locks = Locks::with(Arc::new(redis), keeper, Arc::new(SystemEntropy));
    // Connects, and starts everything that is started only once.
    give_back(take(&locks, 64).await).await;
    let memory = || Usage::now().map_or(0, |usage| usage.memory);
    let empty = memory();

    let kept = take(&locks, LOCKS).await;
    server.forget_calls();
    let mut most = memory();
    eventually("each lock is renewed twice", TTL + SLACK, || {
        most = most.max(memory());
        let renewed = server.calls("pexpire");
        async move { renewed >= 2 * LOCKS }
    })
    .await;
    let (renewed, requests) = (server.calls("pexpire"), server.calls("evalsha"));
    assert!(requests * 64 <= renewed, "{requests} requests for {renewed} renewals");
    let each = most.saturating_sub(empty) / LOCKS;
    println!("{each} bytes for each lock, {requests} requests for {renewed} renewals");
    assert!(each <= 1024, "{each} bytes for each lock");
    give_back(kept).await;
}

async fn serve_all(locks: &Locks) {
    const WAITERS: usize = 2_000;
    let lock = locks.mutex("job").unwrap();
    let held = lock.acquire().await.unwrap();
    let served = Arc::new(Mutex::new(vec![held.token()]));
    let waiting: Vec<_> = (0..WAITERS)
        .map(|_| {
            let (lock, served) = (lock.clone(), Arc::clone(&served));
            tokio::spawn(async move {
                let options = AcquireOptions::new().wait(Duration::from_secs(100));
                let guard = lock.acquire_with(&options).await.unwrap();
                // In the order of the grants, because this runs before the next grant is possible.
                served.lock().unwrap().push(guard.token());
                guard.release().await.unwrap().confirmed().unwrap();
            })
        })
        .collect();
    eventually("all stand in the queue", Duration::from_secs(50), || async {
        tokio::time::sleep(ms(100)).await;
        lock.queue().await.unwrap().len() > WAITERS
    })
    .await;
    // The store may not know the token of the holder.
    let waiters = lock.queue().await.unwrap().into_iter().filter(|row| !row.admitted);
    let order: Vec<_> = waiters.map(|row| row.token.unwrap()).collect();
    held.release().await.unwrap();
    for turn in waiting {
        turn.await.unwrap();
    }
    assert_eq!(served.lock().unwrap()[1..], order, "the order of the queue is the order of the grants");
    assert!(lock.queue().await.unwrap().is_empty());
}

async fn take(locks: &Locks, count: u64) -> Vec<Guard> {
    let options = AcquireOptions::new().ttl(TTL);
    let take = |i| {
        let (lock, options) = (locks.mutex(format!("job/{i:08}")).unwrap(), &options);
        async move { lock.acquire_with(options).await.unwrap() }
    };
    stream::iter(0..count).map(take).buffer_unordered(64).collect().await
}

/// Releases all locks. None of them may have been lost.
async fn give_back(guards: Vec<Guard>) {
    let mut released = stream::iter(guards).map(Guard::release).buffer_unordered(64);
    while let Some(release) = released.next().await {
        release.unwrap().confirmed().unwrap();
    }
}
