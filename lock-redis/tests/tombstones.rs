//! The tombstones that late creates find, and when they are deleted again.

mod common;

use std::{sync::Arc, time::Duration};

use common::*;
use futures_util::{FutureExt, future::join_all};
use lock_core::{
    Backend, Creates, DistributedLock, Entry, Keeper, Locks, Operator, Standing, Step, SystemEntropy,
    WaitMode,
};
use lock_redis::Redis;

/// Longer than a busy machine pauses: none of these tests is about a time limit.
const PATIENT: &str = "?command_timeout=20s&connect_timeout=20s";

/// Waits until there are `count` tombstones. Each look also waits until the server has executed what the client sent before.
async fn await_tombstones(server: &Server, redis: &Redis, count: usize) {
    soon(async {
        loop {
            redis.queue(&name("any")).await.unwrap();
            if server.keys().iter().filter(|key| key.starts_with(b"\xff2x")).count() == count {
                return;
            }
        }
    })
    .await;
}

/// Asserts that only the counters of tokens are left.
fn assert_nobody_is_left(server: &Server) {
    let keys = server.keys();
    assert!(keys.iter().all(|key| is_counter(key)), "{keys:?}");
}

/// Opens everything that a request needs.
async fn warm(redis: &Redis) {
    let first = mutex("warm");
    redis.enter(&first, Step::Create, WaitMode::Queue).await.unwrap();
    redis.leave(&first, Creates::Answered).await.unwrap();
}

/// Starts a request and drops it after `turns` turns: before it is written, when it is, or when the answer may have come.
async fn give_up<T>(asking: impl Future<Output = T>, turns: usize) {
    let mut asking = Box::pin(asking);
    assert!(asking.as_mut().now_or_never().is_none());
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_thousand_tries_given_up_on_one_connection_leave_no_tombstone() {
    let server = Server::start();
    let client = server.client_with(PATIENT);
    warm(&client.redis).await;
    for turn in 0..1_000 {
        let entry = mutex(&format!("job/{}", turn % 10));
        give_up(client.enter(&entry, Step::Create, WaitMode::Try), turn % 4).await;
        client.redis.leave(&entry, Creates::InDoubt).await.unwrap();
    }
    await_tombstones(&server, &client.redis, 0).await;
    assert_nobody_is_left(&server);
}

/// The keeper carries out their leaves, on a connection of its own.
#[tokio::test]
async fn a_thousand_acquires_that_are_given_up_leave_no_tombstone() {
    let server = Server::start();
    let keeper = Keeper::start().unwrap();
    // Enough time to subscribe. Nothing is sent before that.
    let config = format!("{}?prefix=&command_timeout=20s", server.url()).parse().unwrap();
    let redis = Arc::new(Redis::new(config, &keeper).unwrap());
    warm(&redis).await;
    let backend = Arc::clone(&redis);
    let locks = Locks::with(backend, keeper.clone(), Arc::new(SystemEntropy));
    for turn in 0..1_000 {
        let lock = locks.mutex(format!("job/{}", turn % 10)).unwrap();
        give_up(lock.acquire(), turn % 4).await;
    }
    locks.close(Duration::from_secs(20)).await.unwrap();
    await_tombstones(&server, &redis, 0).await;
    assert_nobody_is_left(&server);
    keeper.stop();
}

/// As far as the client knows, a create that was written on the closed connection may still arrive.
#[tokio::test]
async fn a_tombstone_stays_where_the_connection_of_the_create_is_gone() {
    let server = Server::start();
    let client = server.client_by_scripts(PATIENT);
    warm(&client.redis).await;
    let late = mutex("job");
    give_up(client.enter(&late, Step::Create, WaitMode::Try), 1).await;
    server.command::<()>("CLIENT KILL TYPE normal");
    // The first leave may be sent on the closed connection.
    soon(async { while client.redis.leave(&late, Creates::InDoubt).await.is_err() {} }).await;
    await_tombstones(&server, &client.redis, 1).await;
    assert_is_kept_out(&server.client_by_scripts(PATIENT), &late).await;
}

/// Creates in a batch may be sent again, and creates behind it may not be sent at all.
#[tokio::test]
async fn a_tombstone_stays_behind_a_batched_create() {
    let server = Server::start();
    let client = server.client_by_scripts(PATIENT);
    warm(&client.redis).await;
    let entries: Vec<_> = (0..64).map(|i| mutex(&format!("job/{i}"))).collect();
    let all = join_all(entries.iter().map(|entry| client.enter(entry, Step::Create, WaitMode::Try)));
    // At most 32 are sent alone.
    give_up(all, 1).await;
    for entry in &entries {
        client.redis.leave(entry, Creates::InDoubt).await.unwrap();
    }
    await_tombstones(&server, &client.redis, 32).await;
    assert_is_kept_out(&server.client_by_scripts(PATIENT), &entries[63]).await;
}

async fn assert_is_kept_out(client: &Client, late: &Entry) {
    let standing = client.create(late).await;
    assert!(matches!(standing, Standing::Gone), "{standing:?}");
}
