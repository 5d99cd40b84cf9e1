//! How soon a client is back when its servers are. The client of ZooKeeper waits before each round of tries, each time twice as
//! long.

mod common;
mod server;

use std::time::{Duration, Instant};

use common::{assert_free, client, options, soon, take, waiting};
use lock_conformance::{
    Data, Flow, Links, Newcomers, SLACK, ServerControl, Way,
    audit::{await_queue, eventually, within},
};
use lock_core::{AcquireOptions, DistributedLock, Outage, Release};
use server::{Ensemble, OwnServer, own_url};
use tokio::join;

const NAME: &str = "job";

/// The servers are away for about a third of what the session has. By then the client of ZooKeeper tries again in two seconds
/// and more.
const AWAY: Duration = Duration::from_secs(4);

/// What is promised is half a second; machines are busy.
const BACK: Duration = Duration::from_millis(1500);

const TTL: Duration = Duration::from_secs(12);

fn lasting() -> AcquireOptions {
    options().ttl(TTL).outage(Outage::Wait)
}

/// A server behind a network that can be cut, and its URL without that.
async fn start() -> (OwnServer, String) {
    let server = OwnServer::start("case").await;
    let direct = own_url("", &server.address());
    (server.behind_proxy(), direct)
}

fn url(server: &OwnServer) -> String {
    own_url("", &server.address())
}

fn cut(server: &OwnServer) {
    server.proxy().newcomers(Newcomers::Refuse);
    server.proxy().reset(Links::All);
}

fn mend(server: &OwnServer) {
    server.proxy().newcomers(Newcomers::Serve);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_back_as_soon_as_the_servers_are_and_keeps_its_lock() {
    let (server, _) = start().await;
    let holder = client(&url(&server));
    let guard = take(&holder, NAME, &lasting()).await;
    for _ in 0..2 {
        cut(&server);
        tokio::time::sleep(AWAY).await;
        assert!(guard.is_held());
        mend(&server);
        let back = async { while guard.extend().await.is_err() {} };
        within("a renewal once the servers were back", BACK, back).await;
        assert!(guard.remaining() + BACK > TTL, "only {:?} is left", guard.remaining());
    }
    tokio::time::sleep(AWAY * 3).await;
    assert!(guard.is_held(), "its session was closed by a client that came back later");
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_granted_as_soon_as_the_servers_are_back_what_was_released_meanwhile_or_is_later() {
    let (server, direct) = start().await;
    let (others, here) = (client(&direct), client(&url(&server)));
    let first = take(&others, "first", &lasting()).await;
    let second = take(&others, "second", &lasting()).await;
    let for_first = waiting(&here, "first", &lasting(), 2).await;
    let for_second = waiting(&here, "second", &lasting(), 2).await;
    cut(&server);
    tokio::time::sleep(AWAY / 2).await;
    assert_eq!(first.release().await.unwrap(), Release::Released);
    tokio::time::sleep(AWAY / 2).await;
    assert!(!for_first.is_finished());
    mend(&server);
    let first = within("what was released meanwhile", BACK, for_first).await.unwrap();
    assert_eq!(second.release().await.unwrap(), Release::Released);
    let second = within("what was released later", BACK, for_second).await.unwrap();
    for guard in [first, second] {
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
}

/// What is asked for just before the servers are back has not failed.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_while_the_servers_are_away_is_done_when_they_are_back() {
    let (server, _) = start().await;
    let here = client(&url(&server));
    let held = take(&here, NAME, &lasting()).await;
    cut(&server);
    tokio::time::sleep(AWAY).await;
    let lock = here.mutex("other").with_options(options().ttl(TTL));
    let asked = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mended = Instant::now();
    mend(&server);
    let other = soon("a lock that was asked for before", asked).await.unwrap().unwrap();
    assert!(mended.elapsed() < BACK, "{:?}", mended.elapsed());
    assert_eq!(other.release().await.unwrap(), Release::Released);
    assert_eq!(held.release().await.unwrap(), Release::Released);
}

/// Whoever has waited for a connection for as long as a command may take has waited: nothing is asked once more that would wait as long.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_while_the_servers_stay_away_fails_when_its_time_is_over_and_not_twice_as_late() {
    // Twice the limit is longer than the limit and all that a busy machine is given.
    const LIMIT: Duration = Duration::from_secs(6);
    let (server, _) = start().await;
    let here = client(&format!("{}&command_timeout=6s", url(&server)));
    let patient = options().ttl(Duration::from_secs(60));
    let held = take(&here, NAME, &patient).await;
    cut(&server);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lock = here.mutex("other").with_options(patient);
    let asked = Instant::now();
    let acquire = async { (lock.acquire().await.map(drop).unwrap_err(), asked.elapsed()) };
    let release = async { (held.release().await.unwrap_err(), asked.elapsed()) };
    let answers: [_; 2] = join!(acquire, release).into();
    for (error, took) in answers {
        assert!(error.is_transient(), "{error:?}");
        assert!(took >= LIMIT && took < LIMIT + SLACK, "after {took:?}: {error:?}");
    }
}

/// What breaks with a connection is asked once more, at once: when there is none, and before the client counts as away. Nothing of that
/// was sent, so there is nothing to be in doubt about.
#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_with_the_connection_and_is_asked_again_at_once_is_done_when_the_servers_are_back() {
    // A create needs no container before it, whose answer would be lost.
    let server = OwnServer::start_keeping_containers("case").await;
    let direct = url(&server);
    let server = server.behind_proxy();
    // However long it takes here to be back: it is there in time for that, and may not fail.
    let (here, other) = (client(&format!("{}&command_timeout=5s", url(&server))), client(&direct));
    assert_free(&other, "other").await;
    let held = take(&here, NAME, &lasting()).await;
    server.proxy().order(Links::All, Way::Replies, &Flow::Lose);
    let lock = here.mutex("other").with_options(options().ttl(TTL));
    let asked = tokio::spawn(async move { lock.acquire().await });
    let released = tokio::spawn(held.release());
    await_queue(&other, "other", 1).await;
    await_queue(&other, NAME, 0).await;
    cut(&server);
    // Between two tries of the client itself.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    server.proxy().heal();
    let granted = soon("a lock that was asked for", asked).await.unwrap().unwrap();
    let released = soon("a release that was asked for", released).await.unwrap();
    assert_eq!(released.unwrap(), Release::Released);
    assert_eq!(granted.release().await.unwrap(), Release::Released);
}

/// The store is there, and so is the next session: with it the same is another entry (H08), which is no error.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_again_when_its_session_has_ended_is_asked_in_another_one() {
    let server = OwnServer::start_keeping_containers("case").await;
    let direct = url(&server);
    let server = server.behind_proxy();
    let (here, other) = (client(&url(&server)), client(&direct));
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
    assert_eq!(granted.release().await.unwrap(), Release::Released);
}

/// It takes connections, and says nothing on them. With these limits whoever waits for one waits for six seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_keeps_nobody_from_coming_back_by_way_of_another() {
    let ensemble = Ensemble::start("case").await;
    let patient = format!("{}&command_timeout=20s&connect_timeout=20s", own_url("", &ensemble.addresses()));
    let [near, hanging] = ensemble.followers().await;
    for i in (0..3).filter(|i| *i != near) {
        ensemble.front(i).newcomers(Newcomers::Refuse);
    }
    let holders: Vec<_> = (0..4).map(|_| client(&patient)).collect();
    let mut guards = Vec::new();
    for (i, holder) in holders.iter().enumerate() {
        guards.push(take(holder, &format!("job {i}"), &lasting()).await);
    }
    for i in 0..3 {
        ensemble.front(i).newcomers(Newcomers::Serve);
    }
    ensemble.pause(hanging);
    // Half of them try the one that hangs first.
    ensemble.turn_away(near);
    let cut = Instant::now();
    for guard in &guards {
        let back = async { while guard.extend().await.is_err() {} };
        within("a renewal by way of the third server", BACK, back).await;
    }
    assert!(cut.elapsed() < BACK, "{:?} for all of them", cut.elapsed());
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
    ensemble.resume(hanging);
}

/// What was dropped is gone, with all that it did. Only the client of its session still tries, each time after twice as long, to close
/// that.
#[tokio::test(flavor = "multi_thread")]
async fn a_backend_that_is_dropped_while_the_servers_are_away_looks_for_none_any_more_and_its_session_is_closed_by_one()
 {
    let (server, _) = start().await;
    let here = client(&url(&server));
    let long = options().ttl(Duration::from_secs(120));
    assert_eq!(take(&here, NAME, &long).await.release().await.unwrap(), Release::Released);
    assert_eq!(server.admin().nodes_of_sessions().await, 1);
    server.kill().await.unwrap();
    let tries_in = async |time| {
        let before = server.proxy().opened();
        tokio::time::sleep(time).await;
        server.proxy().opened() - before
    };
    let looked = tries_in(AWAY / 2).await;
    assert!(looked > 6, "{looked} tries of a client that is to be back within half a second");
    // The keeper lives on, as the one of a process does.
    let keeper = here.keeper.clone();
    drop(here);
    let looked = tries_in(AWAY).await;
    assert!(looked < 4, "{looked} tries of a client that nobody has");
    server.start(Data::Kept).await.unwrap();
    eventually("no session is left", SLACK * 4, || async { server.admin().nodes_of_sessions().await == 0 })
        .await;
    drop(keeper);
}
