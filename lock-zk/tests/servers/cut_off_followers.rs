//! A lock whose client is connected to a follower that is cut off has to be lost in time. F3, H55; PR28.

use std::time::{Duration, Instant};

use futures_util::{
    FutureExt,
    future::{join_all, select_all},
};
use lock_conformance::{
    Client, Links, Newcomers, SLACK,
    audit::{eventually, within},
};
use lock_core::{DistributedLock, Guard};
use tokio::task::JoinHandle;

use crate::{
    common::{client, options, take},
    server::{Ensemble, TICK},
};

/// The shortest session.
const TTL: Duration = Duration::from_millis(1200);

/// The follower continues to answer the pings and reads of its clients for six times as long as their sessions live. Each client has
/// sent its last heartbeat at another time before the cut: 12 offsets.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_lost_in_time_when_its_follower_is_cut_off() {
    cut_a_follower_off(1, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: the same with a hundred offsets"]
async fn a_lock_is_lost_in_time_however_often_its_follower_is_cut_off() {
    cut_a_follower_off(4, 25).await;
}

async fn cut_a_follower_off(cuts: usize, clients: usize) {
    let ensemble = Ensemble::start_patient().await;
    for _ in 0..cuts {
        let (follower, [here, there]) = follower_and_leader(&ensemble).await;
        let pairs = holders_and_heirs(clients, TTL, &here, &client(&there)).await;
        // The first clients have sent several heartbeats, and the last one its first. On a busy machine some of these leases have rightly
        // ended by now. Those show nothing.
        let held = pairs.iter().filter(|(_, guard, _)| guard.is_held()).count();
        assert!(held > 0, "no lock is held any more");
        let cut = Instant::now();
        ensemble.isolate(follower);
        assert_lost_before_the_next_grant(pairs, TTL).await;
        let took = cut.elapsed();
        // The follower still serves, and does not know that it is cut off, for eight seconds. So only the heartbeats have told the clients.
        if took < Duration::from_secs(7) {
            let mode = ensemble.admin(follower).mode().await;
            assert_eq!(mode.as_deref(), Some("follower"), "after {took:?}");
        }
        ensemble.mend().await;
    }
}

/// A client that reconnects attaches to its session and counts the deadline from then on, and the follower may be cut off right after that.
/// ADR 13.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_lost_in_time_if_its_follower_is_cut_off_during_a_reconnect() {
    cut_off_who_comes_back(&[0, 200], 12).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: the same at other offsets from the comeback"]
async fn a_lock_is_lost_in_time_whenever_its_follower_is_cut_off_after_that() {
    cut_off_who_comes_back(&[50, 100, 150, 250, 300, 400], 12).await;
}

async fn cut_off_who_comes_back(offsets: &[u64], clients: usize) {
    // Less than the time for which the follower still serves.
    const TTL: Duration = Duration::from_millis(4800);
    let ensemble = Ensemble::start_patient().await;
    for offset in offsets.iter().copied().map(Duration::from_millis) {
        let (follower, [here, there]) = follower_and_leader(&ensemble).await;
        let pairs = holders_and_heirs(clients, TTL, &here, &client(&there)).await;
        ensemble.front(follower).newcomers(Newcomers::Refuse);
        ensemble.front(follower).reset(Links::All);
        tokio::time::sleep(Duration::from_millis(600)).await;
        ensemble.front(follower).newcomers(Newcomers::Serve);
        let back = pairs
            .iter()
            .map(|(_, guard, _)| async { while guard.is_held() && guard.extend().await.is_err() {} });
        within("those who come back", TTL, select_all(back.map(Box::pin))).await;
        tokio::time::sleep(offset).await;
        // As long as they can get. A client that has not reconnected yet gets nothing.
        let extended = join_all(pairs.iter().map(|(_, guard, _)| tokio::time::timeout(TICK, guard.extend())));
        drop(extended.await);
        let fresh = pairs.iter().filter(|(_, guard, _)| guard.remaining() > TTL * 2 / 3).count();
        assert!(fresh > 0, "nobody came back");
        ensemble.isolate(follower);
        assert_lost_before_the_next_grant(pairs, TTL).await;
        ensemble.mend().await;
    }
}

/// The follower that will be cut off, its URL, and the URL of the leader.
async fn follower_and_leader(ensemble: &Ensemble) -> (usize, [String; 2]) {
    let (leader, [follower, _]) = (ensemble.leader().await, ensemble.followers().await);
    (follower, [follower, leader].map(|member| ensemble.url_of(&ensemble.address(member))))
}

/// A client that holds a lock, and the task of another one that waits for it.
type Pair = (Client, Guard, JoinHandle<(Duration, bool)>);

/// This many clients of one member each hold a lock, and a client of another member waits for each of these locks.
async fn holders_and_heirs(count: usize, ttl: Duration, here: &str, others: &Client) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for i in 0..count {
        let holder = client(here);
        let guard = take(&holder, &format!("job {i}"), &options().ttl(ttl)).await;
        assert_eq!(guard.ttl(), ttl);
        let next = next_grant(others, &guard).await;
        pairs.push((holder, guard, next));
    }
    pairs
}

async fn assert_lost_before_the_next_grant(pairs: Vec<Pair>, ttl: Duration) {
    for (_holder, guard, next) in pairs {
        within("the loss", ttl + SLACK, guard.lost()).await;
        let (left, signalled) = within("the next grant", ttl * 4 + SLACK, next).await.unwrap();
        assert_eq!(left, Duration::ZERO, "two had it");
        assert!(signalled, "the signal came later than the next grant");
    }
}

/// Waits for a lock that is held, and returns what the holder knows at the moment of the grant: the rest of its lease, and whether
/// its lost signal has fired.
async fn next_grant(others: &Client, guard: &Guard) -> JoinHandle<(Duration, bool)> {
    let (lock, hold) = (others.mutex(guard.name().as_str()).with_options(options()), guard.hold());
    let task = tokio::spawn(async move {
        let next = lock.acquire().await.unwrap();
        let known = (hold.remaining(), hold.lost().now_or_never().is_some());
        drop(next);
        known
    });
    let name = guard.name();
    eventually("a waiter behind a lock that is held", SLACK, || async {
        // On a busy machine, the holder's time may be over before the waiter is seen.
        !guard.is_held() || others.backend.operator().queue(name).await.is_ok_and(|rows| rows.len() == 2)
    })
    .await;
    task
}
