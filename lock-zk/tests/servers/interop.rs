//! One queue for these locks and for Apache Curator's `InterProcessMutex`, the real one.

use std::time::Duration;

use lock_conformance::audit::await_queue;
use lock_core::DistributedLock;
use tokio::task::{JoinHandle, block_in_place};

use crate::{
    common::{client, options, soon},
    server::{Curator, TestServer},
};

/// Long enough for an event that must not happen to have happened.
const QUIET: Duration = Duration::from_millis(500);
const SESSION: Duration = Duration::from_secs(10);

fn url(server: &TestServer) -> String {
    format!("{}&interop=curator", server.url())
}

/// The path of the lock with the name `job`.
fn job(server: &TestServer) -> String {
    format!("{}/job", server.admin().chroot())
}

/// Starts a client with Curator's locks, which takes a second.
fn curator(server: &TestServer) -> Curator {
    block_in_place(|| Curator::start(&server.address(), SESSION))
}

#[tokio::test(flavor = "multi_thread")]
async fn curator_waits_for_a_lock_that_we_hold_and_we_for_one_that_it_holds() {
    let server = TestServer::shared().await;
    let job = job(&server);
    let (ours, mut java) = (client(&url(&server)), curator(&server));
    for _ in 0..3 {
        let guard = soon("a lock that is free", ours.mutex("job").acquire()).await.unwrap();
        java.tell(&format!("acquire {job}"));
        await_queue(&ours, "job", 2).await;
        assert_eq!(block_in_place(|| java.reply_within(QUIET)), None, "two have it");
        guard.release().await.unwrap().confirmed().unwrap();
        assert_eq!(block_in_place(|| java.reply()), "acquired");

        let lock = ours.mutex("job").with_options(options());
        let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
        await_queue(&ours, "job", 2).await;
        tokio::time::sleep(QUIET).await;
        assert!(!waiting.is_finished(), "two have it");
        assert_eq!(block_in_place(|| java.ask(&format!("release {job}"))), "released");
        let guard = soon("the lock that Curator has released", waiting).await.unwrap();
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_is_refused_by_the_other() {
    let server = TestServer::shared().await;
    let job = job(&server);
    let (ours, mut java) = (client(&url(&server)), curator(&server));
    let guard = ours.mutex("job").try_acquire().await.unwrap().expect("it is free");
    assert_eq!(block_in_place(|| java.ask(&format!("try {job} 300"))), "busy");
    guard.release().await.unwrap().confirmed().unwrap();
    assert_eq!(block_in_place(|| java.ask(&format!("try {job} 5000"))), "acquired");
    assert!(ours.mutex("job").try_acquire().await.unwrap().is_none(), "two have it");
    assert_eq!(block_in_place(|| java.ask(&format!("release {job}"))), "released");
    let guard = ours.mutex("job").try_acquire().await.unwrap().expect("it is free again");
    guard.release().await.unwrap().confirmed().unwrap();
}

/// There is one queue for all clients, in the order in which they enter.
#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_queue_is_served_in_its_order() {
    let server = TestServer::shared().await;
    let job = job(&server);
    let (ours, mut first, mut third) = (client(&url(&server)), curator(&server), curator(&server));
    let held = soon("a lock that is free", ours.mutex("job").acquire()).await.unwrap();
    first.tell(&format!("acquire {job}"));
    await_queue(&ours, "job", 2).await;
    let lock = ours.mutex("job").with_options(options());
    let second = tokio::spawn(async move { lock.acquire().await.unwrap() });
    await_queue(&ours, "job", 3).await;
    third.tell(&format!("acquire {job}"));
    await_queue(&ours, "job", 4).await;
    held.release().await.unwrap().confirmed().unwrap();
    assert_eq!(block_in_place(|| first.reply()), "acquired");
    assert!(!second.is_finished() && block_in_place(|| third.reply_within(QUIET)).is_none());
    assert_eq!(block_in_place(|| first.ask(&format!("release {job}"))), "released");
    let second = soon("the second", second).await.unwrap();
    assert_eq!(block_in_place(|| third.reply_within(QUIET)), None, "out of order");
    second.release().await.unwrap().confirmed().unwrap();
    assert_eq!(block_in_place(|| third.reply()), "acquired");
}

/// The killed client's session ends some time later, and with it its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_curator_that_was_killed_is_followed() {
    let server = TestServer::shared().await;
    let job = job(&server);
    let ours = client(&url(&server));
    let mut java = block_in_place(|| Curator::start(&server.address(), Duration::from_secs(2)));
    assert_eq!(block_in_place(|| java.ask(&format!("acquire {job}"))), "acquired");
    let lock = ours.mutex("job").with_options(options());
    let waiting: JoinHandle<_> = tokio::spawn(async move { lock.acquire().await.unwrap() });
    await_queue(&ours, "job", 2).await;
    drop(java);
    let guard = soon("the lock of a Curator that is gone", waiting).await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
}
