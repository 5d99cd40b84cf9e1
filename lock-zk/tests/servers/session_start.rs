//! Sessions that a server grants, and then does not serve for a while.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lock_conformance::{Flow, Framing, Links, SLACK, Way, audit::eventually, unique};
use lock_core::{BackendErrorKind, DistributedLock};
use lock_test_servers::proxy;

use crate::{
    common::{client, kind, options, soon, take},
    packet_faults::{CREATE, ConnectionBreaker, RequestCounter, relay},
    server::{TICK, TestServer},
};

const NAME: &str = "job";

/// Each answer is in time for its request. Together, the answers until the session can be used take longer than the session lasts.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_granted_though_its_session_was_over_when_it_was_opened() {
    let server = TestServer::shared().await;
    // The first client of this path creates the nodes above those of locks, one after the other.
    let (proxy, admin) = (proxy(server.address()), server.admin().at(&format!("first-{}", unique())));
    let limits = "connect_timeout=20s&command_timeout=20s";
    let url = format!("zk://{}{}?tick={}ms&{limits}", proxy.address(), admin.chroot(), TICK.as_millis());
    let lock = client(&url).mutex(NAME).with_options(options().ttl(TICK * 6));
    proxy.order(Links::All, Way::Replies, &Flow::Delay(TICK * 2));
    let waiting = tokio::spawn(async move { lock.acquire().await });
    let (observer, last) = (admin.client().await, format!("{}/e1", admin.chroot()));
    let is_made = || async { observer.check_stat(&last).await.unwrap().is_some() };
    eventually("the nodes above those of locks", SLACK, is_made).await;
    proxy.heal();
    let guard = soon("a lock that is free", waiting).await.unwrap().unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
}

/// The connection breaks at the first request in the session, which does not arrive.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_granted_though_its_session_lost_its_first_connection() {
    let server = TestServer::shared().await;
    let breaks = Arc::new(ConnectionBreaker::default());
    let (_relay, url) = relay(&server, Arc::clone(&breaks) as Arc<dyn Framing>);
    let here = client(&url);
    breaks.at(CREATE, "/s1/");
    take(&here, NAME, &options().ttl(Duration::from_secs(60))).await.release().await.unwrap();
    eventually("a connection that breaks", SLACK, || async { breaks.is_over() }).await;
}

/// A server that grants sessions and does nothing else costs two of them, and no more time than one.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_used_is_opened_once_more_and_not_again() {
    let server = TestServer::shared().await;
    let counts = Arc::new(RequestCounter::about("/s1/"));
    let (_relay, url) = relay(&server, Arc::clone(&counts) as Arc<dyn Framing>);
    let here = client(&format!("{url}&command_timeout=1s&connect_timeout=1s"));
    counts.lose(Some(CREATE));
    let asked = Instant::now();
    let error = soon("an answer", here.mutex(NAME).acquire()).await.unwrap_err();
    let kind = kind(&error);
    assert!(matches!(kind, BackendErrorKind::TimedOut | BackendErrorKind::Unreachable), "{error:?}");
    assert!(asked.elapsed() < Duration::from_secs(2) + SLACK, "after {:?}", asked.elapsed());
    assert_eq!(counts.of(CREATE), 2);
}
