//! The clock of the server is set while a lock is held and waited for. Leases are counted on it: see *Redis* in `docs/guarantees.md`.

mod common;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use common::Server;
use futures_util::future::join;
use lock_conformance::{
    Client, Layered, SLACK, ScriptedFaults, Verb,
    audit::{await_queue, eventually, soon},
};
use lock_core::{AcquireOptions, DistributedLock, Error, Guard, HoldState, Keeper, LostReason, QueueRow};
use lock_redis::{Redis, RedisConfig};
use lock_test_servers::ServerClock;
use tokio::task::JoinHandle;

const NAME: &str = "job";

const HOUR: i64 = 3600;

/// Renewed, and looked at, every 2 s.
const TTL: Duration = Duration::from_secs(6);

/// A client, with what it asks.
struct Party {
    client: Client,
    asked: ScriptedFaults,
}

impl Party {
    fn new(server: &Server) -> Self {
        let (keeper, asked) = (Keeper::start().unwrap(), ScriptedFaults::default());
        let config: RedisConfig = server.url().parse().unwrap();
        let store = Arc::new(Redis::new(config, &keeper).unwrap());
        let store = Arc::new(Layered::new(store, Arc::new(asked.clone())));
        let options = AcquireOptions::new().ttl(TTL).wait(Duration::from_secs(60));
        Self { client: Client::on(store, keeper, options), asked }
    }
}

/// A holder, and a waiter behind it.
struct Scene {
    server: Server,
    clock: ServerClock,
    _files: tempfile::TempDir,
    holder: Party,
    waiter: Party,
    guard: Guard,
    waiting: JoinHandle<Guard>,
}

impl Scene {
    async fn begin() -> Self {
        let files = tempfile::tempdir().unwrap();
        let clock = ServerClock::new(files.path());
        let server = Server::on_clock(&clock);
        let (holder, waiter) = (Party::new(&server), Party::new(&server));
        let guard = holder.client.mutex(NAME).try_acquire().await.unwrap().unwrap();
        let lock = waiter.client.mutex(NAME);
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
        await_queue(&holder.client, NAME, 2).await;
        Self { server, clock, _files: files, holder, waiter, guard, waiting }
    }

    fn set_clock(&self, ahead: i64) {
        self.clock.set_ahead(ahead);
        let (theirs, _) = self.server.command::<(i64, i64)>("TIME");
        let ours = i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
        assert!((theirs - ours - ahead).abs() < 60, "at {ours} the clock of the server shows {theirs}");
    }

    async fn queue(&self) -> Vec<QueueRow> {
        self.waiter.client.mutex(NAME).queue().await.unwrap()
    }
}

/// The lease has ended on the server, as the guarantees say. The holder learns so with its next renewal, and the waiter, whose place
/// ended as well, has another one with its next look.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_forward_ends_leases_and_holders_are_told() {
    let scene = Scene::begin().await;
    scene.set_clock(HOUR);
    let (told, next) =
        join(soon("the loss", scene.guard.lost()), soon("the next grant", scene.waiting)).await;
    let next = next.unwrap();
    assert_eq!(told, LostReason::Gone, "it was noticed only when the lease had ended here");
    assert!(next.token() > scene.guard.token(), "{} after {}", next.token(), scene.guard.token());
    assert!(matches!(scene.guard.release().await, Err(Error::Lost { .. })));
    next.extend().await.unwrap();
    next.release().await.unwrap().confirmed().unwrap();
    await_queue(&scene.holder.client, NAME, 0).await;
}

/// Leases only get longer. Nobody waits for that: a waiter looks again after a third of its own lease, as ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_costs_no_lock_no_place_and_no_order() {
    let scene = Scene::begin().await;
    let place = scene.queue().await[1].clone();
    scene.set_clock(-HOUR);
    let left = scene.queue().await[0].lease_left.unwrap();
    assert!(left > Duration::from_secs(3000), "leases do not depend on this clock: {left:?}");
    let (renewals, looks) =
        (scene.holder.asked.answers(Verb::Renew), scene.waiter.asked.answers(Verb::Enter));
    eventually("a renewal, and a look", SLACK, || async {
        scene.holder.asked.answers(Verb::Renew) > renewals && scene.waiter.asked.answers(Verb::Enter) > looks
    })
    .await;
    assert_eq!(scene.guard.state(), HoldState::Held);
    assert!(scene.waiter.client.mutex(NAME).try_acquire().await.unwrap().is_none());
    assert!(!scene.waiting.is_finished());

    let first = scene.guard.token();
    scene.guard.release().await.unwrap().confirmed().unwrap();
    let next = soon("the next grant", scene.waiting).await.unwrap();
    assert_eq!((Some(next.entry_id()), Some(next.token())), (place.entry, place.token), "another place");
    let second = next.token();
    next.release().await.unwrap().confirmed().unwrap();
    // The clock is behind both, and the counter is not.
    let last = scene.holder.client.mutex(NAME).try_acquire().await.unwrap().unwrap();
    assert!(first < second && second < last.token(), "{first}, {second}, {}", last.token());
    last.release().await.unwrap().confirmed().unwrap();
}
