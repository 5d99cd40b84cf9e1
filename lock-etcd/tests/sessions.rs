//! The leases that keep locks alive, and what the server keeps for a client. E5a, E5c, E5d, E6, E7, E8, E13; H78.

mod common;
mod server;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use common::{Client, LATE, name, options, soon, told};
use lock_conformance::{Flow, Gate, Links, Newcomers, Proxy, Way, audit};
use lock_core::{Claim, DistributedLock, Entry, EntryId, LostReason, Released, Standing, Step, WaitMode};
use server::{TestServer, answered, quiet, watch_streams};

const NAME: &str = "job";

fn url(server: &TestServer) -> String {
    format!("etcd://{}/case", server.address())
}

/// E5a, H78, F2: etcd's own lock is identified by the lease, so two tasks that share a lease both hold the lock.
#[tokio::test(flavor = "multi_thread")]
async fn two_tasks_that_share_a_lease_exclude_each_other() {
    let server = TestServer::start("case").await;
    let client = Client::new(&url(&server));
    let guard = client.take(NAME, &options()).await;
    assert!(client.mutex(NAME).try_acquire_with(&options()).await.unwrap().is_none());
    let waiter = client.waiting(NAME, &options(), 2).await;
    let keys = server.admin().keys(&name(NAME)).await;
    assert_eq!(keys[0].lease(), keys[1].lease());
    assert_ne!(keys[0].key(), keys[1].key());
    assert!(guard.is_held() && !waiter.is_finished());
    guard.release().await.unwrap().confirmed().unwrap();
    let next = soon("the other task", waiter).await.unwrap();
    next.release().await.unwrap().confirmed().unwrap();
}

/// E5d: the waiter's lease lives on with the other entries under it, so nothing else would ever remove it from the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_gives_up_leaves_its_place_at_once_and_nobody_elses() {
    let server = TestServer::start("case").await;
    let (holder, other) = (Client::new(&url(&server)), Client::new(&url(&server)));
    let long = told();
    let guard = holder.take(NAME, &long).await;
    let gives_up = other.waiting(NAME, &long, 2).await;
    let stays = other.waiting(NAME, &long, 3).await;
    let places = async || {
        let keys = server.admin().keys(&name(NAME)).await;
        keys.iter().map(etcd_client::KeyValue::create_revision).collect::<Vec<_>>()
    };
    let before = places().await;
    gives_up.abort();
    holder.await_queue(NAME, 2).await;
    assert_eq!(places().await, [before[0], before[2]]);
    assert!(guard.is_held() && !stays.is_finished());
    guard.release().await.unwrap().confirmed().unwrap();
    let next = soon("the waiter that stayed", stays).await.unwrap();
    next.release().await.unwrap().confirmed().unwrap();
}

/// H24: a release does not check whose key it is. When the one that is in flight here arrives, the keeper has long sent it again, and was
/// answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_arrives_late_frees_nobody_elses_lock() {
    let server = TestServer::start("case").await;
    let direct = server.address();
    let deletes = async || answered(&direct, "KV/DeleteRange").await;
    let observer = Client::new(&url(&server));
    let server = server.behind_proxy();
    let client = Client::new(&format!("{}?command_timeout=2s&heartbeat=1h", url(&server)));
    let long = told();
    let guard = client.take(NAME, &long).await;
    let gate = Gate::new();
    server.proxy().order(Links::Open, Way::Requests, &Flow::Hold(gate.clone()));
    let release = tokio::spawn(guard.release());
    // After this, the request is in flight, and not given up yet.
    tokio::time::sleep(Duration::from_millis(500)).await;
    // The server must not learn that the client gives it up.
    server.proxy().order(Links::Open, Way::Requests, &Flow::Lose);
    let unconfirmed = soon("an answer", release).await.unwrap();
    assert!(matches!(unconfirmed, Ok(Released::Pending { .. })), "{unconfirmed:?}");
    observer.await_queue(NAME, 0).await;
    let guard = client.take(NAME, &long).await;
    let before = deletes().await;
    gate.open();
    let arrived = async {
        while deletes().await == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the late release", Box::pin(arrived)).await;
    assert_eq!(observer.queue(NAME).await.len(), 1, "nobody has the lock that is held");
    guard.release().await.unwrap().confirmed().unwrap();
    client.assert_free(NAME).await;
}

/// The answer to a create is in flight while its session ends, and with it the entry. Only entries that are already admitted learn of the
/// end of a session, so nothing else would tell this one before its first renewal.
#[tokio::test(flavor = "multi_thread")]
async fn no_lock_is_granted_under_a_session_that_has_ended_meanwhile() {
    let server = TestServer::start("case").await;
    // The keeper's connection names the key of evictions, which it watches.
    let is_keepers = |sent: &[u8]| sent.windows(7).any(|part| part == b"case/e1");
    let proxy = Proxy::start(server.address().parse().unwrap(), is_keepers);
    let client = Client::new(&format!("etcd://{}/case?command_timeout=60s&heartbeat=1h", proxy.address()));
    let first = client.take("first", &told()).await;
    audit::eventually("the keeper's stream", LATE, || async { proxy.hinting() == 1 }).await;
    let admin = server.admin();
    let lease = async |lock| admin.keys(&name(lock)).await.first().map(etcd_client::KeyValue::lease);
    let session = lease("first").await.unwrap();
    let gate = Gate::new();
    proxy.order(Links::OpenCommands, Way::Replies, &Flow::Hold(gate.clone()));
    let taking = client.mutex(NAME).with_options(told());
    let taking = tokio::spawn(async move { taking.acquire().await.unwrap() });
    audit::eventually("the entry", LATE, || async { lease(NAME).await == Some(session) }).await;
    admin.client().await.lease_revoke(session).await.unwrap();
    soon("the end of the session", first.lost()).await;
    gate.open();
    let guard = soon("a lock that is free", taking).await.unwrap();
    let lives_under = lease(NAME).await;
    assert!(lives_under.is_some_and(|lease| lease != session), "{guard:?} has no entry: {lives_under:?}");
    assert!(guard.is_held());
    guard.release().await.unwrap().confirmed().unwrap();
}

/// The entry ahead has left. The answer that the waiter's own entry exists is in flight while its session ends, and the entry with it.
#[tokio::test(flavor = "multi_thread")]
async fn no_waiter_is_granted_a_lock_under_a_session_that_has_ended() {
    let server = TestServer::start("case").await;
    let (direct, admin) = (server.address(), server.admin());
    // The keeper's connection names the key of evictions, which it watches.
    let is_keepers = |sent: &[u8]| sent.windows(7).any(|part| part == b"case/e1");
    let proxy = Proxy::start(direct.parse().unwrap(), is_keepers);
    let holder = Client::new(&format!("{}?heartbeat=1h", url(&server)));
    let client = Client::new(&format!("etcd://{}/case?command_timeout=60s&heartbeat=1h", proxy.address()));
    let guard = holder.take(NAME, &told()).await;
    // It is in the session of the waiter, and tells when that has ended.
    let beside = client.take("beside", &told()).await;
    let waiter = client.waiting(NAME, &told(), 2).await;
    audit::eventually("the keeper's stream", LATE, || async { proxy.hinting() == 1 }).await;
    quiet(&direct, &["KV/Txn", "Watch/Watch"]).await;
    let before = answered(&direct, "KV/Txn").await;
    let gate = Gate::new();
    proxy.order(Links::OpenCommands, Way::Replies, &Flow::Hold(gate.clone()));
    guard.release().await.unwrap().confirmed().unwrap();
    audit::eventually("the waiter's read", LATE, || async { answered(&direct, "KV/Txn").await > before })
        .await;
    let session = admin.keys(&name(NAME)).await[0].lease();
    admin.client().await.lease_revoke(session).await.unwrap();
    soon("the end of the session", beside.lost()).await;
    gate.open();
    let guard = soon("the waiter", waiter).await.unwrap();
    let keys = admin.keys(&name(NAME)).await;
    let places: Vec<_> = keys.iter().map(|key| key.create_revision().unsigned_abs()).collect();
    assert!(places.contains(&guard.token().get()), "{guard:?} has no entry: {places:?}");
    guard.release().await.unwrap().confirmed().unwrap();
}

/// The cluster may be slow to answer while the next waiter is admitted, so the client does not ask whether the lease exists.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_seen_to_end_is_lost_though_nobody_answers() {
    let server = TestServer::start("case").await;
    let direct = server.address();
    let server = server.behind_proxy();
    let client = Client::new(&format!("{}?command_timeout=60s&heartbeat=1h", url(&server)));
    let guard = client.take(NAME, &told()).await;
    let lease = server.admin().keys(&name(NAME)).await[0].lease();
    // By then, the stream and its watches exist.
    audit::eventually("a stream", LATE, || async { watch_streams(&direct).await > 0 }).await;
    quiet(&direct, &["Watch/Watch"]).await;
    let gate = Gate::new();
    server.proxy().newcomers(Newcomers::Refuse);
    server.proxy().order(Links::Open, Way::Requests, &Flow::Hold(gate.clone()));
    server.admin().client().await.lease_revoke(lease).await.unwrap();
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::Gone);
    gate.open();
    server.proxy().heal();
}

/// E6, E13: all writes of a cluster wait while a lease is revoked, the longer the more keys it has.
#[tokio::test(flavor = "multi_thread")]
async fn no_lease_has_more_than_a_thousand_locks() {
    const LOCKS: usize = 1_010;
    let server = TestServer::start("case").await;
    let client = Client::new(&url(&server));
    let long = told();
    let mut guards = Vec::new();
    let mut leases = BTreeMap::new();
    for i in 0..LOCKS {
        let lock = format!("job {i}");
        guards.push(client.take(&lock, &long).await);
        // The locks in the middle show nothing.
        if !(10..990).contains(&i) {
            *leases.entry(server.admin().keys(&name(&lock)).await[0].lease()).or_insert(0) += 1;
        }
    }
    let counts: BTreeSet<_> = leases.values().copied().collect();
    assert_eq!(counts, BTreeSet::from([10, 20]), "{leases:?}");
}

/// E5c, E7: etcd grants whole seconds, and more than requested; if etcd chose the id of a lease, a lost answer would leave it unknown.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_shows_the_ttl_that_was_granted() {
    let server = TestServer::start("case").await;
    let client = Client::new(&url(&server));
    for asked in [1_500, 2_200, 10_000].map(Duration::from_millis) {
        let guard = client.take(NAME, &options().ttl(asked)).await;
        let lease = server.admin().keys(&name(NAME)).await[0].lease();
        let granted = server.admin().client().await.lease_time_to_live(lease, None).await.unwrap();
        assert_eq!(guard.ttl(), Duration::from_secs(granted.granted_ttl().unsigned_abs()));
        assert!(guard.ttl() >= asked && guard.remaining() <= asked, "{guard:?}");
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

/// A shared lease is kept alive for the other entries under it, so such a lock would not end at its ttl.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_not_renewed_has_a_lease_of_its_own_that_goes_with_it() {
    let server = TestServer::start("case").await;
    let client = Client::new(&url(&server));
    let shared = client.take("shared", &options()).await;
    let leases = server.admin().leases().await;
    let alone = client.take(NAME, &options().renew(false)).await;
    let lease = async |lock| server.admin().keys(&name(lock)).await[0].lease();
    assert_ne!(lease("shared").await, lease(NAME).await);
    assert_eq!(server.admin().leases().await, leases + 1);
    alone.release().await.unwrap().confirmed().unwrap();
    let gone = async {
        while server.admin().leases().await > leases {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the end of a lease that nobody needs", Box::pin(gone)).await;
    assert!(shared.is_held());
    shared.release().await.unwrap().confirmed().unwrap();
}

/// A process may end as soon as its client is closed, and then nothing revokes its leases.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_close_the_server_has_no_lease_of_its_client() {
    let server = TestServer::start("case").await;
    let client = Client::new(&url(&server));
    for options in [options(), options().ttl(Duration::from_secs(5)), options().renew(false)] {
        client.take(NAME, &options).await.release().await.unwrap().confirmed().unwrap();
    }
    assert!(server.admin().leases().await >= 2, "there is one for each ttl");
    client.locks.close(LATE).await.unwrap();
    assert_eq!(server.admin().leases().await, 0);
}

/// If a revoke that was not answered were not repeated, the session would exist until it expires.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_dropped_while_the_server_is_away_ends_when_it_is_back() {
    let server = TestServer::start("case").await.behind_proxy();
    // Enough time for the first answers, on a busy machine, too.
    let client = Client::new(&format!("{}?command_timeout=2s&heartbeat=1h", url(&server)));
    client.take(NAME, &told()).await.release().await.unwrap().confirmed().unwrap();
    assert_eq!(server.admin().leases().await, 1);
    server.proxy().silence(Links::All);
    drop(client);
    // The first attempt is given up after its time limit. If a busy machine is slower than this, the test shows less, but does not fail.
    tokio::time::sleep(Duration::from_secs(3)).await;
    server.proxy().heal();
    audit::eventually("the end of the session", LATE, || async { server.admin().leases().await == 0 }).await;
}

/// The grant was given up in flight, and creates the lease after the revoke. No other task knows of the lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_arrives_after_a_close_leaves_no_lease_behind() {
    let server = TestServer::start("case").await;
    let direct = server.address();
    let grants = async || answered(&direct, "Lease/LeaseGrant").await;
    let server = server.behind_proxy();
    // So long that the machine may pause while the request is in flight without the request being given up.
    let client = Client::new(&format!("{}?command_timeout=6s&heartbeat=1h", url(&server)));
    client.take(NAME, &options()).await.release().await.unwrap().confirmed().unwrap();
    let before = grants().await;
    let gate = Gate::new();
    server.proxy().order(Links::Open, Way::Requests, &Flow::Hold(gate.clone()));
    // Another ttl needs another lease.
    let lock = client.mutex(NAME).with_options(told());
    let acquiring = tokio::spawn(async move { lock.acquire().await.map(drop) });
    soon("a request at the gate", gate.reached()).await;
    // After this, all of the request is in flight, and not given up yet.
    tokio::time::sleep(Duration::from_millis(500)).await;
    // The server must not learn that the client gives it up.
    server.proxy().order(Links::Open, Way::Requests, &Flow::Lose);
    soon("an answer", acquiring).await.unwrap().unwrap_err();
    client.locks.close(LATE).await.unwrap();
    assert_eq!((server.admin().leases().await, grants().await), (0, before));
    gate.open();
    audit::eventually("the late grant", LATE, || async { grants().await > before }).await;
    audit::eventually("the end of its lease", LATE, || async { server.admin().leases().await == 0 }).await;
}

/// A private session that was given back is no longer in the pool when its client is dropped.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_its_own_goes_though_its_client_goes_at_once() {
    let server = TestServer::start("case").await;
    for _ in 0..20 {
        let client = Client::new(&url(&server));
        let guard = client.take(NAME, &told().renew(false)).await;
        guard.release().await.unwrap().confirmed().unwrap();
    }
    audit::eventually("the end of the leases", LATE, || async { server.admin().leases().await == 0 }).await;
}

/// The entry's lease has ended, no leave follows, and no sweep finds it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_of_an_entry_that_was_not_renewed_and_is_gone() {
    let server = TestServer::start("case").await;
    let client = Client::new(&url(&server));
    let guard = client.take(NAME, &told()).await;
    let of = guard.name().clone();
    let mut seen = Vec::new();
    for i in 0..3 {
        let mut entry = Entry::new(of.clone(), EntryId::new(i), Claim::mutex(), Duration::from_secs(1));
        entry.renew = false;
        let standing = client.backend.enter(&entry, Step::Create, WaitMode::Queue).await.unwrap();
        let Standing::Waiting { token, ttl, .. } = standing else { panic!("the lock is held: {standing:?}") };
        drop(standing);
        tokio::time::sleep(ttl + Duration::from_millis(100)).await;
        let again = client.backend.enter(&entry, Step::Again(token), WaitMode::Queue).await.unwrap();
        assert!(matches!(again, Standing::Gone), "{again:?}");
        seen.push(format!("{:?}", client.backend));
    }
    assert!(seen.iter().all(|seen| seen.contains("members: 1,")), "the holder is the only one: {seen:#?}");
    client.await_queue(NAME, 1).await;
    guard.release().await.unwrap().confirmed().unwrap();
}

/// E8: a stream for each waiter costs the server and the client seven times as much as a watch on an existing stream.
#[tokio::test(flavor = "multi_thread")]
async fn all_waiters_of_a_client_share_one_stream() {
    let server = TestServer::start("case").await;
    // With this heartbeat, no stream is given up because a busy machine answers late.
    let url = format!("{}?heartbeat=1h", url(&server));
    let (holder, other) = (Client::new(&url), Client::new(&url));
    let mut guards = Vec::new();
    let mut waiters = Vec::new();
    let before = watch_streams(&server.address()).await;
    for i in 0..10 {
        let name = format!("job {i}");
        guards.push(holder.take(&name, &options()).await);
        waiters.push(other.waiting(&name, &options(), 2).await);
    }
    for guard in guards {
        guard.release().await.unwrap().confirmed().unwrap();
    }
    for waiter in waiters {
        let granted = soon("the waiter", waiter).await.unwrap();
        granted.release().await.unwrap().confirmed().unwrap();
    }
    // This includes the stream of the holder's client.
    let opened = watch_streams(&server.address()).await - before;
    assert!((1..=2).contains(&opened), "{opened} streams for two clients");
}
