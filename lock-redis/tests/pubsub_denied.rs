//! Users without permission to publish or to subscribe, like a new user of Redis 7: a waiter gets no hint of its grant, so it polls.

mod common;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use common::*;
use lock_core::{AcquireOptions, DistributedLock, Guard, Keeper, Locks, Operator, SystemEntropy};
use lock_redis::Redis;
use tokio::task::JoinHandle;

/// Every waiter looks after a third of it, with or without a hint.
const TTL: Duration = Duration::from_secs(60);

/// How late a hand-off may be on a busy machine; far below a third of the ttl.
const SOON: Duration = Duration::from_secs(5);

/// Makes a user with all permissions, changed by `rules`.
fn user(server: &Server, name: &str, rules: &str) {
    server.command::<()>(&format!("ACL SETUSER {name} on >secret ~* &* +@all {rules}"));
}

fn locks(server: &Server, user: &str) -> (Locks, Arc<Redis>) {
    let url = server.url().replace("//", &format!("//{user}:secret@")) + "?prefix=";
    let keeper = Keeper::start().unwrap();
    let redis = Arc::new(Redis::new(url.parse().unwrap(), &keeper).unwrap());
    let options = AcquireOptions::new().ttl(TTL).wait(TTL * 2);
    let locks =
        Locks::with(Arc::clone(&redis) as Arc<dyn lock_core::Backend>, keeper, Arc::new(SystemEntropy));
    (locks.with_options(options), redis)
}

/// A holder of one client, and a waiter of the other for the same lock.
async fn holder_and_heir(from: &Locks, to: &Locks) -> (Guard, JoinHandle<Guard>) {
    let guard = soon(from.mutex("job").unwrap().acquire()).await.unwrap();
    let heir = to.mutex("job").unwrap();
    let heir = tokio::spawn(async move { heir.acquire().await.unwrap() });
    soon(async {
        while from.mutex("job").unwrap().queue().await.unwrap().len() < 2 {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    // By now, the waiter has looked and sleeps.
    tokio::time::sleep(ms(100)).await;
    (guard, heir)
}

/// Releases the lock, and returns how long the hand-off to the waiter took.
async fn hand_over((guard, heir): (Guard, JoinHandle<Guard>)) -> Duration {
    guard.release().await.unwrap().confirmed().unwrap();
    let released = Instant::now();
    let guard: Guard = tokio::time::timeout(TTL, heir).await.expect("the heir looks now and then").unwrap();
    let took = released.elapsed();
    guard.release().await.unwrap().confirmed().unwrap();
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_handed_over_soon_without_a_word_and_people_are_told_why_once() {
    for (may_not, rules) in
        [("channels", "resetchannels"), ("publish", "-publish"), ("subscribe", "-subscribe")]
    {
        let server = Server::start();
        user(&server, may_not, rules);
        let warned = warnings_about(&server);
        let ((one, redis), (two, _)) = (locks(&server, may_not), locks(&server, may_not));
        for (from, to) in [(&one, &two), (&two, &one), (&one, &two)] {
            let took = hand_over(holder_and_heir(from, to).await).await;
            assert!(took < SOON, "{may_not}: {took:?}");
        }
        // Long enough for some more attempts to subscribe.
        tokio::time::sleep(ms(1_000)).await;
        let warned = warned();
        assert_eq!(warned.len(), 2, "{may_not}: one for each process, and not {warned:#?}");
        let command = format!("ACL SETUSER {may_not} +publish +subscribe &*");
        assert!(warned.iter().all(|line| line.contains(&command)), "{may_not}: {warned:#?}");
        let problems = redis.diagnose().await.unwrap().problems;
        assert!(problems.iter().any(|problem| problem.contains(&command)), "{may_not}: {problems:#?}");
        // Once the permission is granted, the problem is gone, without a restart.
        server.command::<()>(&command);
        let problems = redis.diagnose().await.unwrap().problems;
        assert!(!problems.iter().any(|problem| problem.contains("ACL SETUSER")), "{may_not}: {problems:#?}");
    }
}

/// The waiter receives the hints of all other clients, so it cannot notice this by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_not_late_because_another_client_may_not_publish() {
    let server = Server::start();
    user(&server, "mute", "-publish");
    user(&server, "well", "");
    let warned = warnings_about(&server);
    let ((mute, _), (well, redis)) = (locks(&server, "mute"), locks(&server, "well"));
    for _ in 0..3 {
        let took = hand_over(holder_and_heir(&mute, &well).await).await;
        assert!(took < SOON, "{took:?}");
    }
    let warned = warned();
    assert!(warned.len() == 1 && warned[0].contains("ACL SETUSER mute +publish"), "{warned:#?}");
    let problems = redis.diagnose().await.unwrap().problems;
    assert!(!problems.iter().any(|problem| problem.contains("ACL SETUSER")), "{problems:#?}");
    // The mark ends by itself.
    let left: i64 = server.bytes(&[b"PTTL", b"\xff2m"]);
    assert!((1..=60_000).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_may_not_subscribe_any_more_polls_from_then_on() {
    let server = Server::start();
    user(&server, "well", "");
    user(&server, "deaf", "");
    let warned = warnings_about(&server);
    let ((well, _), (deaf, _)) = (locks(&server, "well"), locks(&server, "deaf"));
    let waiting = holder_and_heir(&well, &deaf).await;
    // This ends the user's subscriptions.
    server.command::<()>("ACL SETUSER deaf resetchannels");
    soon(async {
        while !warned().iter().any(|line| line.contains("ACL SETUSER deaf")) {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    let took = hand_over(waiting).await;
    assert!(took < SOON, "{took:?}");
}

/// Very many waiters keep the machine busy, so this test runs when no other does.
mod alone {
    use super::*;

    /// The more waiters there are, the less often each of them looks.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_crowd_that_nobody_tells_anything_asks_seldom() {
        const CROWD: usize = 300;
        const WATCHED: Duration = Duration::from_secs(3);
        let server = Server::start();
        user(&server, "deaf", "resetchannels");
        let (locks, _) = locks(&server, "deaf");
        let guard = soon(locks.mutex("job").unwrap().acquire()).await.unwrap();
        let mut crowd = tokio::task::JoinSet::new();
        for _ in 0..CROWD {
            let lock = locks.mutex("job").unwrap();
            crowd.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
        }
        soon(async {
            while locks.mutex("job").unwrap().queue().await.unwrap().len() <= CROWD {
                tokio::time::sleep(ms(20)).await;
            }
        })
        .await;
        server.forget_calls();
        tokio::time::sleep(WATCHED).await;
        let asked = server.calls("evalsha");
        assert!(asked <= 3 * 250, "{asked} looks in {WATCHED:?}");
        crowd.abort_all();
        drop(guard);
    }
}

/// Others are told by a mark that lasts a minute, which is written again every 20 s, each time on a connection of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_may_not_publish_says_so_rarely() {
    let server = Server::start();
    user(&server, "mute", "-publish");
    let (locks, _redis) = locks(&server, "mute");
    soon(locks.mutex("job").unwrap().acquire()).await.unwrap().release().await.unwrap().confirmed().unwrap();
    let connections = || {
        let info: String = server.command("INFO stats");
        let (_, rest) = info.split_once("total_connections_received:").unwrap();
        rest.lines().next().unwrap().parse::<u64>().unwrap()
    };
    soon(async {
        while server.bytes::<u64>(&[b"EXISTS", b"\xff2m"]) == 0 {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    let before = connections();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // The question counts itself.
    assert_eq!(connections() - before, 1);
}

/// The warnings about this server from now on.
fn warnings_about(server: &Server) -> impl Fn() -> Vec<String> + use<> {
    let address = server.url().replace("redis://", "");
    let log = warnings();
    move || log.lines_with(&address)
}
