//! The wall clock of the server is set while a lock is held and waited for. Sessions are counted on another clock: see *ZooKeeper* in
//! `docs/guarantees.md`.

use std::time::{Duration, SystemTime};

use lock_conformance::{
    SLACK,
    audit::{safety, within},
};
use lock_test_servers::ServerClock;
use zookeeper_client::{Acls, CreateMode};

use crate::{
    common::{alone_while, client, options, take, waiting},
    server::{TICK, TestServer},
};

const NAME: &str = "job";

const HOUR: i64 = 3600;

/// Forward and back. Nor does it take longer until the lock of a dead client is free.
#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_is_set_costs_no_lock_no_place_and_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ServerClock::new(folder.path());
    let server = TestServer::own_with(|member| member.with_clock(&clock)).await;
    let [holder, waiter, rival] = [(); 3].map(|()| client(&server.url()));
    let guard = take(&holder, NAME, &options().ttl(Duration::from_secs(2))).await;
    let next = waiting(&waiter, NAME, &options(), 2).await;
    for ahead in [HOUR, -HOUR] {
        clock.set_ahead(ahead);
        let (theirs, ours) = (seconds_of(&server).await, seconds());
        assert!((theirs - ours - ahead).abs() < 60, "at {ours} the clock of the server shows {theirs}");
        // The server looks for sessions that are over in every tick.
        alone_while(&guard, &rival, tokio::time::sleep(TICK * 3)).await;
        guard.extend().await.unwrap();
        assert!(guard.is_held() && !next.is_finished());
    }
    let ttl = guard.ttl();
    holder.crash().await;
    let granted = within("the next grant", ttl + SLACK, next).await.unwrap();
    safety(!guard.is_held(), "granted to others while it is held");
    assert!(granted.token() > guard.token());
    granted.release().await.unwrap().confirmed().unwrap();
}

/// What time it is for the server, in seconds since 1970. A node tells when it was made.
async fn seconds_of(server: &TestServer) -> i64 {
    let client = server.admin().client().await;
    let node = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (stat, _) = client.create("/clock-", b"", &node).await.expect("the server makes nodes");
    stat.ctime / 1000
}

/// What time it is here.
fn seconds() -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("it is later than that");
    i64::try_from(now.as_secs()).expect("it is not as late as that")
}
