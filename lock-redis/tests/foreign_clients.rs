//! The effects of other clients of the server on waiters, by their own keys and by forged messages.

mod common;

use std::sync::Arc;

use common::*;
use lock_conformance::{SLACK, audit::within};
use lock_core::{AcquireOptions, Backend, DistributedLock, Guard, Keeper, Locks, SystemEntropy};
use lock_redis::Redis;
use tokio::task::JoinHandle;

/// The locks of a new client, whose URL has only these parameters.
fn locks(server: &Server, parameters: &str) -> Locks {
    let keeper = Keeper::start().unwrap();
    let redis = Redis::new(format!("{}{parameters}", server.url()).parse().unwrap(), &keeper).unwrap();
    let options = AcquireOptions::new().ttl(ms(30_000)).wait(ms(60_000));
    Locks::with(Arc::new(redis) as Arc<dyn Backend>, keeper, Arc::new(SystemEntropy)).with_options(options)
}

/// Acquires the lock in a task of its own, and returns when the queue has `len` entries.
async fn waiting(locks: &Locks, of: &str, ttl: u64, len: usize) -> JoinHandle<Guard> {
    let lock = locks.mutex(of).unwrap();
    let looking = lock.clone();
    let options = AcquireOptions::new().ttl(ms(ttl)).wait(ms(60_000));
    let task = tokio::spawn(async move { lock.acquire_with(&options).await.unwrap() });
    soon(async {
        while looking.queue().await.unwrap().len() < len {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_and_a_key_of_the_application_of_one_name_do_not_meet() {
    let server = Server::start();
    server.command::<()>("SET counter 7");
    let guard = soon(locks(&server, "").mutex("counter").unwrap().try_acquire()).await.unwrap();
    let guard = guard.expect("nobody has the lock");
    assert!(server.command::<bool>("EXISTS distlock:counter"));
    guard.release().await.unwrap().confirmed().unwrap();
    assert_eq!(server.command::<String>("GET counter"), "7");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_prefix_the_locks_of_others_on_the_same_key_keep_us_out() {
    let server = Server::start();
    assert!(server.command::<bool>("SETNX job theirs"));
    let (apart, shared) = (locks(&server, ""), locks(&server, "?prefix="));
    assert!(soon(apart.mutex("job").unwrap().try_acquire()).await.unwrap().is_some());
    assert!(soon(shared.mutex("job").unwrap().try_acquire()).await.unwrap().is_none());
}

/// Without the warning, a waiter would wait forever for a key that is no lock, and no log line would report it.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_key_of_others_that_never_ends_is_told_once() {
    let server = Server::start();
    let warned = warnings();
    for command in ["SET brief 7 PX 60000", "SET counter 7", "SET app:counter 7"] {
        server.command::<()>(command);
    }
    let (bare, prefixed) = (locks(&server, "?prefix="), locks(&server, "?prefix=app:"));
    let waiters = [
        waiting(&bare, "brief", 30_000, 2).await,
        waiting(&bare, "counter", 30_000, 2).await,
        waiting(&bare, "counter", 30_000, 3).await,
        waiting(&prefixed, "counter", 30_000, 2).await,
    ];
    let told = |key: &str| {
        let begin = format!("the redis key `{key}` ");
        warned.lines_with(&begin)
    };
    soon(async {
        while told("counter").is_empty() || told("app:counter").is_empty() {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    // The first waiter of each queue looks twice a second.
    tokio::time::sleep(ms(1_500)).await;
    let [brief, bare, prefixed] = ["brief", "counter", "app:counter"].map(told);
    assert_eq!([brief.len(), bare.len(), prefixed.len()], [0, 1, 1], "{}", warned.text());
    assert!(
        bare[0].contains("give the locks a prefix") && !prefixed[0].contains("a prefix"),
        "{}",
        warned.text()
    );
    waiters.iter().for_each(JoinHandle::abort);
}

/// A user may read and publish, and hints are not confirmed: a waiter believes the forged hint, but only until its first renewal.
#[tokio::test(flavor = "multi_thread")]
async fn who_believes_a_forged_hint_is_told_at_its_first_renewal() {
    const TTL: u64 = 3_000;
    let server = Server::start();
    let (one, two) = (locks(&server, ""), locks(&server, ""));
    let held = soon(one.mutex("job").unwrap().acquire()).await.unwrap();
    let waiter = waiting(&two, "job", TTL, 2).await;
    let lock = one.mutex("job").unwrap();
    let place = lock.queue().await.unwrap().pop().unwrap();
    let forged = format!("A {} {}", place.entry.unwrap(), place.token.unwrap());
    for channel in server.command::<Vec<Vec<u8>>>("PUBSUB CHANNELS") {
        server.bytes::<()>(&[b"PUBLISH", &channel, forged.as_bytes()]);
    }
    let believed = soon(waiter).await.unwrap();
    assert_eq!(Some(believed.token()), place.token);
    within("the loss of what was never held", ms(TTL) / 3 + SLACK, believed.lost()).await;
    assert!(held.is_held());
    drop(believed);
    // The waiter has left the queue, and the holder still has the lock.
    soon(async {
        while lock.queue().await.unwrap().len() > 1 {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    assert_eq!(lock.queue().await.unwrap()[0].entry, Some(held.entry_id()));
    held.release().await.unwrap().confirmed().unwrap();
}
