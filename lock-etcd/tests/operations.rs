//! What operators do to a server while locks are held and waited for. H11, H59, H74, H94; E9, E14, F13.

mod common;
mod server;

use std::time::{Duration, Instant};

use common::{Client, kind, name, options, soon};
use lock_conformance::{Links, ServerControl, audit::within};
use lock_core::{BackendErrorKind, DistributedLock, HoldState, Release};
use server::{Admin, OwnServer, requests};

const NAME: &str = "job";

/// So long that nothing is noticed by a lease that ends or a look that is due.
const LONG: Duration = Duration::from_secs(600);

/// Whoever waits looks again after 5 s, whatever happens: who goes on sooner was told.
const TOLD: Duration = Duration::from_millis(2500);

fn url(server: &OwnServer) -> String {
    format!("etcd://{}/case?command_timeout=1s&connect_timeout=1s&heartbeat=500ms", server.address())
}

/// A watch that named a revision would be refused, or ended: this one begins now. E14, H74.
#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_while_somebody_waits_is_not_noticed() {
    let server = OwnServer::start("case").await;
    let (holder, other) = (Client::new(&url(&server)), Client::new(&url(&server)));
    let guard = holder.take(NAME, &options().ttl(LONG)).await;
    server.admin().compact().await;
    let waiter = other.waiting(NAME, &options().ttl(LONG), 2).await;
    let looks = async || requests(&server.address()).await["KV/Txn"];
    let (before, began) = (looks().await, Instant::now());
    for _ in 0..3 {
        server.admin().compact().await;
    }
    tokio::time::sleep(Duration::from_millis(600)).await;
    let asked = looks().await - before;
    // Whoever waits looks again every 5 s, whatever happens.
    assert!(asked <= 1 + began.elapsed().as_secs() / 5, "the waiter looked {asked} times");
    assert!(guard.is_held() && !waiter.is_finished());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    let guard = within("the waiter after a compaction", TOLD, waiter).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// What it has missed meanwhile is forgotten before it can ask for it: H74.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_was_cut_off_during_a_release_and_a_compaction_is_granted() {
    let server = OwnServer::start("case").await;
    let direct = url(&server);
    let server = server.behind_proxy();
    let (holder, other) = (Client::new(&direct), Client::new(&url(&server)));
    let guard = holder.take(NAME, &options().ttl(LONG)).await;
    let waiter = other.waiting(NAME, &options().ttl(LONG), 2).await;
    server.proxy().silence(Links::All);
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    server.admin().compact().await;
    server.admin().compact().await;
    server.proxy().heal();
    server.proxy().reset(Links::All);
    let guard = within("the waiter that missed the release", TOLD, waiter).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// A stream that is silent without being broken: a waiter notices that by itself, long before its lease ends. F13, H75.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_stream_has_gone_silent_is_granted() {
    let server = OwnServer::start("case").await;
    let direct = url(&server);
    let server = server.behind_proxy();
    let (holder, other) = (Client::new(&direct), Client::new(&url(&server)));
    let guard = holder.take(NAME, &options().ttl(LONG)).await;
    let waiter = other.waiting(NAME, &options().ttl(LONG), 2).await;
    server.proxy().silence(Links::Open);
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    let guard = within("the waiter with a silent stream", TOLD, waiter).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// PR18: without a word to the client, and long before it is due to renew.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_lease_is_revoked_by_an_operator_is_told_so() {
    let server = OwnServer::start("case").await;
    let (holder, other) = (Client::new(&url(&server)), Client::new(&url(&server)));
    let guard = holder.take(NAME, &options().ttl(LONG)).await;
    let waiter = other.waiting(NAME, &options().ttl(LONG), 2).await;
    revoke(server.admin(), 0).await;
    soon("the loss of a lock whose lease was revoked", guard.lost()).await;
    assert!(matches!(guard.state(), HoldState::Lost(_)) && !guard.is_held());
    let next = soon("the next in the queue", waiter).await.unwrap();
    assert!(next.token() > guard.token());
    assert_eq!(guard.release().await.unwrap(), Release::AlreadyLost);
    assert!(next.is_held(), "H24: the late release took another's lock");
    assert_eq!(next.release().await.unwrap(), Release::Released);
    // The client has a lease again, and goes on.
    holder.assert_free(NAME).await;
}

/// H10, H11: etcd's own lock grants such a waiter a key that is not there, or lets it wait for ever (etcd #9921, #19597).
/// PR26: and under a new lease it is a new entry.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_lease_is_revoked_by_an_operator_stands_in_the_queue_again() {
    let server = OwnServer::start("case").await;
    let (holder, other) = (Client::new(&url(&server)), Client::new(&url(&server)));
    let guard = holder.take(NAME, &options().ttl(LONG)).await;
    let waiter = other.waiting(NAME, &options().ttl(LONG), 2).await;
    for _ in 0..3 {
        let before = holder.queue(NAME).await[1].entry;
        revoke(server.admin(), 1).await;
        let again = async {
            while holder.queue(NAME).await.get(1).is_none_or(|row| row.entry == before) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within("a new place for the waiter", TOLD, again).await;
    }
    assert!(guard.is_held() && !waiter.is_finished());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    let next = soon("the waiter after its lease was revoked", waiter).await.unwrap();
    assert!(next.is_held());
    assert_eq!(next.release().await.unwrap(), Release::Released);
    other.assert_free(NAME).await;
}

/// Everybody loses everything at once, and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn all_leases_can_be_revoked_at_once() {
    let server = OwnServer::start("case").await;
    let clients = [Client::new(&url(&server)), Client::new(&url(&server))];
    let guard = clients[0].take(NAME, &options().ttl(LONG)).await;
    let mut waiters = Vec::new();
    for len in 2..6 {
        waiters.push(clients[len % 2].waiting(NAME, &options().ttl(LONG), len).await);
    }
    server.admin().revoke_all().await;
    soon("the loss of a lock whose lease was revoked", guard.lost()).await;
    for waiter in futures_util::future::select_all(waiters).await.2 {
        waiter.abort();
    }
    clients[1].assert_free(NAME).await;
}

/// The server takes no more data: what is held is kept, and can be released; what is new is refused. H94.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_kept_and_released_on_a_server_without_space() {
    let server = OwnServer::start("case").await;
    let (holder, other) = (Client::new(&url(&server)), Client::new(&url(&server)));
    let ttl = Duration::from_secs(2);
    let guard = holder.take(NAME, &options().ttl(ttl)).await;
    // A client that has its lease already, and one that has none.
    other.assert_free("before").await;
    let fresh = Client::new(&url(&server));
    server.fill().await.unwrap();
    let end = Instant::now() + ttl * 2;
    while Instant::now() < end {
        assert!(guard.is_held(), "lost: {:?}", guard.state());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for client in [&other, &fresh] {
        let error = soon("an answer", client.mutex("new").acquire()).await.unwrap_err();
        assert_eq!(*kind(&error), BackendErrorKind::OutOfMemory, "{error:?}");
    }
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    other.await_queue(NAME, 0).await;
    server.make_room().await.unwrap();
    other.assert_free("new").await;
}

/// E14: what watches from a revision that has passed is up to 100 ms late. Here somebody writes all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_does_not_wait_for_the_loop_for_late_watchers() {
    let server = OwnServer::start("case").await;
    let clients = [Client::new(&url(&server)), Client::new(&url(&server))];
    let mut noise = server.admin().client().await;
    let noise = tokio::spawn(async move {
        loop {
            noise.put("noise", "", None).await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let mut latencies = Vec::new();
    let mut guard = clients[0].take(NAME, &options()).await;
    for round in 1..=41 {
        let waiter = clients[round % 2].waiting(NAME, &options(), 2).await;
        let released = Instant::now();
        let (release, next) = tokio::join!(guard.release(), waiter);
        latencies.push(released.elapsed());
        assert_eq!(release.unwrap(), Release::Released);
        guard = next.unwrap();
    }
    guard.release().await.unwrap();
    noise.abort();
    latencies.sort();
    // The peers take 90 ms; this takes 2 ms where nothing else runs.
    assert!(latencies[20] < Duration::from_millis(45), "a hand-over takes {:?}", latencies[20]);
}

/// Ends the lease of one in the queue.
async fn revoke(admin: &Admin, place: usize) {
    let lease = admin.keys(&name(NAME)).await[place].lease();
    assert_ne!(lease, 0, "an entry without a lease would outlive its client");
    admin.client().await.lease_revoke(lease).await.expect("the server revokes leases");
}
