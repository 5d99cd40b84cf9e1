//! What happens to a session when a server grants only shorter ones. The ensemble uses the timeout that the last server granted.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use lock_conformance::{
    Client, Framing, Links, Newcomers, SLACK,
    audit::{await_queue, eventually, within},
};
use lock_core::{DistributedLock, Guard};
use lock_test_servers::proxy;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

use crate::{
    common::{client, options, queue, soon, take},
    packet_faults::{SessionShortener, relay},
    server::{Ensemble, SHORTER, TICK, TestServer},
};

const NAME: &str = "job";

/// Waits for a lock that is held. Returns the next guard, what was left to the one before at that moment, and whether its lost signal had
/// fired.
async fn heir(other: &Client, guard: &Guard) -> JoinHandle<(Guard, Duration, bool)> {
    let (lock, hold) = (other.mutex(NAME), guard.hold());
    let task = tokio::spawn(async move {
        let next = lock.acquire_with(&options()).await.unwrap();
        (next, hold.remaining(), hold.lost().now_or_never().is_some())
    });
    await_queue(other, NAME, 2).await;
    task
}

async fn assert_lost_before(next: JoinHandle<(Guard, Duration, bool)>, ttl: Duration) {
    let (next, left, signalled) = within("the next grant", ttl * 4 + SLACK, next).await.unwrap();
    assert_eq!(left, Duration::ZERO, "two had it");
    assert!(signalled, "the signal came later than the next grant");
    next.release().await.unwrap().confirmed().unwrap();
}

/// On that server the session would end earlier than the guard was told. The lock may be lost, but must not be relied on for too long.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_lost_in_time_if_only_a_server_with_a_lower_limit_is_left() {
    let ttl = SHORTER * 3;
    let ensemble = Ensemble::start_uneven().await;
    let [less, enough] = [0, 1].map(|i| proxy(ensemble.address(i)));
    less.newcomers(Newcomers::Refuse);
    let here = client(&ensemble.url_of(&format!("{},{}", less.address(), enough.address())));
    let other = client(&ensemble.url_of(&ensemble.address(2)));
    let guard = take(&here, NAME, &options().ttl(ttl)).await;
    assert_eq!(guard.ttl(), ttl);
    let next = heir(&other, &guard).await;
    less.newcomers(Newcomers::Serve);
    enough.newcomers(Newcomers::Refuse);
    enough.reset(Links::All);
    // A client that attached to this server would renew its lock there, and rely on that.
    let renewed = async { while guard.is_held() && guard.extend().await.is_err() {} };
    within("a renewal, or the loss", ttl + SLACK, renewed).await;
    less.silence(Links::All);
    assert_lost_before(next, ttl).await;
    // A new session there has the timeout that the server grants.
    less.heal();
    let guard = take(&here, "other", &options().ttl(ttl)).await;
    assert_eq!(guard.ttl(), SHORTER);
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_kept_by_way_of_servers_that_grant_its_sessions_timeout() {
    const ROUNDS: usize = 8;
    let ttl = Duration::from_secs(24);
    let ensemble = Ensemble::start_uneven().await;
    let here = client(&ensemble.url_of(&ensemble.addresses()));
    ensemble.front(0).newcomers(Newcomers::Refuse);
    let guard = take(&here, NAME, &options().ttl(ttl)).await;
    assert!(guard.ttl() >= ttl, "{:?}", guard.ttl());
    ensemble.front(0).newcomers(Newcomers::Serve);
    for round in 0..ROUNDS {
        (0..3).for_each(|i| ensemble.front(i).reset(Links::All));
        within("a renewal", SLACK, async { while guard.extend().await.is_err() {} }).await;
        // The client may have connected to that server to find out what it grants.
        let nobody = || async { ensemble.front(0).open() == 0 };
        eventually("no connection to the one that gives less", SLACK, nobody).await;
        assert!(guard.is_held(), "in round {round}");
    }
    guard.release().await.unwrap().confirmed().unwrap();
}

/// The new limit is unknown before, as when a server was restarted with another limit. The lock is not granted before its holder knows.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_lost_at_once_when_a_server_lowers_its_session_limit() {
    let ttl = Duration::from_secs(24);
    let server = TestServer::shared().await;
    let shortens = Arc::new(SessionShortener::default());
    let (relay, _) = relay(&server, Arc::clone(&shortens) as Arc<dyn Framing>);
    let road = proxy(relay.address());
    let url = format!("zk://{}{}?tick={}ms", road.address(), server.admin().chroot(), TICK.as_millis());
    let (here, other) = (client(&url), client(&server.url()));
    let guard = take(&here, NAME, &options().ttl(ttl)).await;
    assert!(guard.ttl() >= ttl, "{:?}", guard.ttl());
    let next = heir(&other, &guard).await;
    shortens.to(TICK * 12);
    road.reset(Links::All);
    soon("the loss", guard.lost()).await;
    assert_lost_before(next, ttl).await;
}

/// No ttl says how long the session of a client lasts that only reads. The shortest one, of six ticks, may be over before it is open.
#[tokio::test(flavor = "multi_thread")]
async fn the_session_of_a_client_that_only_reads_outlasts_a_command() {
    let server = TestServer::shared().await;
    let here = client(&format!("{}&command_timeout=6s", server.url()));
    assert_eq!(queue(&here, NAME).await.len(), 0);
    let admin = server.admin();
    let nodes = admin.client().await.list_children(&format!("{}/s1", admin.chroot())).await.unwrap();
    let session = nodes.iter().find_map(|node| u64::from_str_radix(node, 16).ok()).unwrap();
    let (mut stream, mut told) = (TcpStream::connect(server.address()).await.unwrap(), String::new());
    stream.write_all(b"cons").await.unwrap();
    stream.read_to_string(&mut told).await.unwrap();
    let connection = told.lines().find(|line| line.contains(&format!("sid={session:#x},"))).unwrap();
    let (_, timeout) = connection.split_once(",to=").unwrap();
    let millis: u64 = timeout.split(',').next().unwrap().parse().unwrap();
    assert!(millis >= 6_000, "{connection}");
}
