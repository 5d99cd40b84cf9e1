//! The behaviour of the server itself that affects locks. A version with known bugs fails here.

mod common;
mod server;

use std::time::Duration;

use common::{Client, options};
use etcd_client::LockOptions;
use lock_conformance::LogText;
use server::TestServer;

/// F1, H10, E5b (etcd #9921, #11456): why these locks do not use the lock service of the server. Before 3.5, it grants a
/// key that does not exist, and the next client gets the lock, too.
#[tokio::test(flavor = "multi_thread")]
async fn the_servers_lock_service_grants_nothing_to_a_lease_that_has_ended() {
    let server = TestServer::start("case").await;
    let (mut holder, mut waiter) = (server.admin().client().await, server.admin().client().await);
    let lease =
        async |client: &mut etcd_client::Client, ttl| client.lease_grant(ttl, None).await.unwrap().id();
    let long = LockOptions::new().with_lease(lease(&mut holder, 600).await);
    let held = holder.lock("job", Some(long)).await.unwrap();
    let ends = lease(&mut waiter, 1).await;
    let waiting = tokio::spawn(async move {
        let ended = LockOptions::new().with_lease(ends);
        waiter.lock("job", Some(ended)).await.map(|granted| granted.key().to_vec())
    });
    let mut admin = server.admin().client().await;
    while admin.lease_time_to_live(ends, None).await.unwrap().ttl() >= 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    holder.unlock(held.key()).await.unwrap();
    // Once the lock is free, the request has ended, one way or the other.
    let granted = tokio::time::timeout(Duration::from_secs(4), waiting).await;
    if let Ok(Ok(Ok(key))) = granted {
        let found = admin.get(key, None).await.unwrap().kvs().len();
        assert_eq!(found, 1, "the server has granted a key that is not there");
    }
}

/// The floors of `docs/backends/etcd.md`.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_without_known_faults_has_no_problems() {
    let server = TestServer::start("case").await;
    let client = Client::new(&format!("etcd://{}/case", server.address()));
    let diagnosis = client.locks.operator().diagnose().await.unwrap();
    assert!(diagnosis.problems.is_empty(), "{:?}", diagnosis.problems);
}

/// The warning comes once: a connection that is opened again logs nothing new.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_warned_once_of_a_version_with_known_faults_and_of_no_other() {
    let log = LogText::default();
    let written = log.clone();
    // Other threads log, too: those of the keeper and of this runtime.
    tracing_subscriber::fmt().with_writer(move || written.clone()).with_ansi(false).init();
    let server = TestServer::start("case").await;
    let client = Client::new(&format!("etcd://{}/case", server.address()));
    let guard = client.take("job", &options()).await;
    guard.release().await.unwrap().confirmed().unwrap();
    let diagnosis = client.locks.operator().diagnose().await.unwrap();
    let log = log.text();
    let warnings = log.lines().filter(|line| line.contains("this version of etcd has faults"));
    let ours = warnings.filter(|line| line.contains(&server.address()) && line.contains("WARN"));
    assert_eq!(ours.count(), usize::from(!diagnosis.problems.is_empty()), "{:?}\n{log}", diagnosis.problems);
}
