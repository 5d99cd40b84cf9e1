//! How soon a client reconnects when its servers are back, and what happens to requests in the meantime. The ZooKeeper client by itself
//! waits before each round of attempts, each time twice as long.

use std::time::{Duration, Instant};

use lock_conformance::{
    Client, Data, Flow, Links, Newcomers, Port, Proxy, SLACK, ServerControl, Way,
    audit::{await_queue, eventually, within},
};
use lock_core::{AcquireOptions, DistributedLock, Outage};
use tokio::join;

use crate::{
    common::{assert_free, client, options, soon, take, waiting},
    server::{Containers, Ensemble, TestServer},
};

const NAME: &str = "job";

/// How long the servers are away: a part of the session's timeout.
const AWAY: Duration = Duration::from_secs(3);

const TTL: Duration = Duration::from_secs(24);

fn lasting() -> AcquireOptions {
    options().ttl(TTL).outage(Outage::Wait)
}

/// A client with time limits that tolerate absent servers and a busy machine.
fn patient(server: &TestServer) -> Client {
    client(&format!("{}&command_timeout=60s&connect_timeout=60s", server.url()))
}

/// A server behind a network that can be cut.
async fn start() -> TestServer {
    TestServer::shared().await.behind_proxy()
}

fn cut(server: &TestServer) {
    server.proxy().newcomers(Newcomers::Refuse);
    server.proxy().reset(Links::All);
}

fn mend(server: &TestServer) {
    server.proxy().newcomers(Newcomers::Serve);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_back_as_soon_as_the_servers_are_and_keeps_its_lock() {
    let server = start().await;
    let holder = client(&server.url());
    let guard = take(&holder, NAME, &lasting()).await;
    for _ in 0..2 {
        cut(&server);
        tokio::time::sleep(AWAY).await;
        assert!(guard.is_held());
        mend(&server);
        let back = async { while guard.extend().await.is_err() {} };
        soon("a renewal once the servers were back", back).await;
        // So earlier proofs do not count any more.
        eventually("nearly all of its lease", SLACK, || async { guard.remaining() + AWAY > TTL }).await;
    }
    // By then, the client of the last connection, and the one before it, would have tried again: 3.2 and 6.4 s after they lost the servers.
    tokio::time::sleep(AWAY + Duration::from_secs(1)).await;
    assert!(guard.is_held(), "its session was closed by a client that came back later");
    guard.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_granted_on_reconnect_what_was_released_meanwhile_or_later() {
    let server = start().await;
    let (others, here) = (client(&server.direct_url()), patient(&server));
    let first = take(&others, "first", &lasting()).await;
    let second = take(&others, "second", &lasting()).await;
    let for_first = waiting(&here, "first", &lasting(), 2).await;
    let for_second = waiting(&here, "second", &lasting(), 2).await;
    cut(&server);
    tokio::time::sleep(AWAY / 2).await;
    first.release().await.unwrap().confirmed().unwrap();
    tokio::time::sleep(AWAY / 2).await;
    assert!(!for_first.is_finished());
    mend(&server);
    let first = soon("what was released meanwhile", for_first).await.unwrap();
    second.release().await.unwrap().confirmed().unwrap();
    let second = soon("what was released later", for_second).await.unwrap();
    for guard in [first, second] {
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

/// A request that is made just before the servers are back has not failed when they are.
#[tokio::test(flavor = "multi_thread")]
async fn requests_made_while_the_servers_are_away_succeed_on_reconnect() {
    let server = start().await;
    let here = patient(&server);
    let held = take(&here, NAME, &lasting()).await;
    cut(&server);
    tokio::time::sleep(AWAY).await;
    let lock = here.mutex("other").with_options(options().ttl(TTL));
    let asked = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    mend(&server);
    let other = soon("a lock that was asked for before", asked).await.unwrap().unwrap();
    other.release().await.unwrap().confirmed().unwrap();
    held.release().await.unwrap().confirmed().unwrap();
}

/// A request that has waited for a connection for as long as a command may take is not repeated: that would wait as long again.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_fails_in_time_while_the_servers_stay_away() {
    const LIMIT: Duration = Duration::from_secs(8);
    let server = start().await;
    let here = client(&format!("{}&command_timeout=8s", server.url()));
    let patient = options().ttl(Duration::from_secs(60));
    let held = take(&here, NAME, &patient).await;
    cut(&server);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lock = here.mutex("other").with_options(patient);
    let asked = Instant::now();
    let acquire = async { (lock.acquire().await.map(drop).unwrap_err(), asked.elapsed()) };
    let release = async { (held.release().await.unwrap().confirmed().unwrap_err(), asked.elapsed()) };
    let ((refused, refused_after), (pending, pending_after)) = join!(acquire, release);
    assert!(refused.is_transient() && pending.is_transient(), "{refused:?}, {pending:?}");
    for took in [refused_after, pending_after] {
        // Waiting twice for the limit would take at least this long.
        assert!(took >= LIMIT && took < LIMIT * 2, "after {took:?}");
    }
}

/// A request whose connection breaks is repeated immediately, when there is no connection. The repetition was not sent, so it is not in
/// doubt.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_broke_and_is_repeated_at_once_succeeds_on_reconnect() {
    // So that the create does not need to make the container first, whose answer would be lost.
    let server = TestServer::shared_with(Containers::Kept).await.behind_proxy();
    // So long that the request does not fail before the servers are back.
    let here = client(&format!("{}&command_timeout=20s&connect_timeout=20s", server.url()));
    let other = client(&server.direct_url());
    assert_free(&other, "other").await;
    let held = take(&here, NAME, &lasting()).await;
    server.proxy().order(Links::All, Way::Replies, &Flow::Lose);
    let lock = here.mutex("other").with_options(options().ttl(TTL));
    let asked = tokio::spawn(async move { lock.acquire().await });
    let released = tokio::spawn(held.release());
    await_queue(&other, "other", 1).await;
    await_queue(&other, NAME, 0).await;
    cut(&server);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    server.proxy().heal();
    let granted = soon("a lock that was asked for", asked).await.unwrap().unwrap();
    let released = soon("a release that was asked for", released).await.unwrap();
    released.unwrap().confirmed().unwrap();
    granted.release().await.unwrap().confirmed().unwrap();
}

/// The store is reachable and opens another session. There it is another entry (H08), which is not an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_after_the_end_of_a_session_uses_another_one() {
    let server = TestServer::shared_with(Containers::Kept).await.behind_proxy();
    let (here, other) = (client(&server.url()), client(&server.direct_url()));
    assert_free(&other, "other").await;
    let held = take(&here, NAME, &lasting()).await;
    let session = server.admin().session_of(&server.admin().node(held.name(), 0).await).await;
    server.proxy().order(Links::All, Way::Replies, &Flow::Lose);
    let lock = here.mutex("other").with_options(options().ttl(TTL));
    let asked = tokio::spawn(async move { lock.acquire().await });
    await_queue(&other, "other", 1).await;
    cut(&server);
    server.admin().close_session(session).await;
    server.proxy().heal();
    let granted = soon("a lock that was asked for", asked).await.unwrap().unwrap();
    assert!(!held.is_held());
    granted.release().await.unwrap().confirmed().unwrap();
}

/// The connection ends after most of the release's time limit, and the release is repeated: within the rest of that time, and not for as
/// long again.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_by_way_of_a_server_that_hangs_is_unconfirmed_in_time() {
    const LIMIT: Duration = Duration::from_secs(6);
    const BREAKS: Duration = Duration::from_secs(5);
    let server = start().await;
    let here = client(&format!("{}&command_timeout=6s&connect_timeout=60s", server.url()));
    let guard = take(&here, NAME, &options().ttl(Duration::from_secs(60))).await;
    server.proxy().silence(Links::All);
    let asked = Instant::now();
    let released = tokio::spawn(guard.release());
    tokio::time::sleep(BREAKS).await;
    // New connections are silent, too.
    server.proxy().reset(Links::All);
    let released = soon("an answer", released).await.unwrap();
    let took = asked.elapsed();
    assert!(matches!(released, Ok(lock_core::Released::Pending { .. })), "{released:?}");
    // Waiting for the whole limit again would take at least this long.
    assert!(took >= LIMIT && took < BREAKS + LIMIT, "after {took:?}: {released:?}");
    server.proxy().heal();
    server.proxy().reset(Links::All);
    // The unconfirmed release is carried out later.
    assert!(here.locks.close(SLACK).await.is_ok());
}

/// The server accepts connections and sends nothing. With these time limits, the ZooKeeper client waits for it for half a minute.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_keeps_nobody_from_coming_back_by_way_of_another() {
    let ensemble = Ensemble::start().await;
    let patient =
        format!("{}&command_timeout=60s&connect_timeout=60s", ensemble.url_of(&ensemble.addresses()));
    let lasting = options().ttl(Duration::from_secs(80)).outage(Outage::Wait);
    let [near, hanging] = ensemble.followers().await;
    for i in (0..3).filter(|i| *i != near) {
        ensemble.front(i).newcomers(Newcomers::Refuse);
    }
    let holders: Vec<_> = (0..4).map(|_| client(&patient)).collect();
    let mut guards = Vec::new();
    for (i, holder) in holders.iter().enumerate() {
        guards.push(take(holder, &format!("job {i}"), &lasting).await);
    }
    for i in 0..3 {
        ensemble.front(i).newcomers(Newcomers::Serve);
    }
    ensemble.pause(hanging);
    // Half of the clients try the server that hangs first.
    ensemble.turn_away(near);
    let cut = Instant::now();
    for guard in &guards {
        let back = async { while guard.extend().await.is_err() {} };
        soon("a renewal by way of the third server", back).await;
    }
    assert!(cut.elapsed() < SLACK, "{:?} for all of them", cut.elapsed());
    for guard in guards {
        guard.release().await.unwrap().confirmed().unwrap();
    }
    ensemble.resume(hanging);
}

/// The backend and its tasks are gone. Only the client of its session still tries to close the session, each time after twice as long a
/// pause.
#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_backend_stops_looking_for_servers_and_its_session_is_closed() {
    // By then, pauses that double each time, from 100 ms on, are longer than the time limits of this test.
    const MANY: u64 = 9;
    // So long that a search every second makes more attempts than one with doubling pauses.
    const LONG_ENOUGH: Duration = Duration::from_secs(6);
    let server = TestServer::own().await.behind_proxy();
    let here = client(&server.url());
    let long = options().ttl(Duration::from_secs(120));
    take(&here, NAME, &long).await.release().await.unwrap().confirmed().unwrap();
    assert_eq!(server.admin().nodes_of_sessions().await, 1);
    server.kill().await.unwrap();
    let (before, began) = (server.proxy().opened(), Instant::now());
    let tries = || server.proxy().opened() - before;
    eventually("tries of a client that is to be back soon", SLACK, || async { tries() >= MANY }).await;
    let took = began.elapsed();
    // The keeper lives on, like the shared keeper of a process.
    let keeper = here.keeper.clone();
    drop(here);
    // Now it begins to wait.
    let dropped = Instant::now();
    tokio::time::sleep(took.max(Duration::from_secs(2))).await;
    let (before, waited) = (tries(), dropped.elapsed());
    tokio::time::sleep(LONG_ENOUGH).await;
    let after = u32::try_from(tries() - before).unwrap();
    // One attempt each time that its waiting time has doubled, and two at the ends.
    let doubled = (dropped.elapsed().as_secs_f64() / waited.as_secs_f64()).log2();
    assert!(
        f64::from(after) <= doubled + 2.0,
        "{after} tries of a client that nobody has, {doubled:.1} times twice as late"
    );
    server.start(Data::Kept).await.unwrap();
    eventually("no session is left", SLACK * 4, || async { server.admin().nodes_of_sessions().await == 0 })
        .await;
    drop(keeper);
}

/// All clients ask all servers whether they serve, while an ensemble starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_for_a_server_asks_ever_more_seldom() {
    // Each client asks every server whether it serves, and tries one of them.
    const IN_A_ROUND: u64 = 4;
    // By then, pauses have their maximum length.
    const FIRST: u64 = 7;
    const LATER: u64 = 6;
    // At least five pauses of half a second. Without growing pauses, the rounds would take little more than one pause.
    const SELDOM: Duration = Duration::from_millis(2500);
    let server = TestServer::own().await.behind_proxy();
    let ports = [Port::reserve(), Port::reserve()];
    let dead = ports.each_ref().map(|port| Proxy::start(([127, 0, 0, 1], port.number()).into(), |_| true));
    let fronts = [server.proxy(), &dead[0], &dead[1]];
    let here = client(&server.url_by(&fronts.map(|front| front.address().to_string()).join(",")));
    let guard = take(&here, NAME, &options().ttl(Duration::from_secs(120))).await;
    server.kill().await.unwrap();
    let opened = || fronts.map(Proxy::opened);
    let rounds = async |many: u64| {
        let before: u64 = opened().iter().sum();
        let tried = || async { opened().iter().sum::<u64>() >= before + many * IN_A_ROUND };
        eventually("more rounds of tries", SLACK, tried).await;
    };
    rounds(FIRST).await;
    let (before, began) = (opened(), Instant::now());
    rounds(LATER).await;
    let took = began.elapsed();
    assert!(took >= SELDOM, "{LATER} rounds in {took:?}");
    let asked: Vec<_> = opened().iter().zip(before).map(|(now, before)| now - before).collect();
    assert!(asked.iter().all(|asked| *asked >= LATER - 1), "{asked:?}: each is asked in each round");
    server.start(Data::Kept).await.unwrap();
    within("a renewal once the server is back", SLACK, async { while guard.extend().await.is_err() {} })
        .await;
    guard.release().await.unwrap().confirmed().unwrap();
}
