//! How long a lock is held whose client cannot see that it is alone. F3, H55; PR28.

mod common;
mod server;

use std::time::{Duration, Instant};

use common::{client, options, take};
use futures_util::{
    FutureExt,
    future::{join_all, select_all},
};
use lock_conformance::{
    Client, Links, Newcomers, SLACK,
    audit::{await_queue, within},
};
use lock_core::{DistributedLock, Guard};
use server::{Ensemble, TICK};
use tokio::task::JoinHandle;

/// The shortest session that there is.
const TTL: Duration = Duration::from_millis(1200);

fn url_of(addresses: &str) -> String {
    server::own_url("", addresses)
}

/// The follower goes on answering its clients, pings and reads, for six times as long as their sessions live. Each client has
/// sent its last heartbeat at another time before the cut: 50 offsets, for two cuts.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_lost_before_the_ensemble_can_give_it_away_when_its_follower_is_cut_off() {
    for _ in 0..2 {
        let ensemble = Ensemble::start_patient("case").await;
        let [follower, _] = ensemble.followers().await;
        let leader = ensemble.leader().await;
        let [here, there] = [follower, leader].map(|member| url_of(&ensemble.address(member)));
        let pairs = holders_and_heirs(25, TTL, &here, &client(&there)).await;
        // Those who came first have sent several heartbeats, and the last one its first.
        assert!(pairs.iter().all(|(_, guard, _)| guard.is_held()), "lost without a reason");
        let cut = Instant::now();
        ensemble.isolate(follower);
        assert_lost_before_the_next_grant(pairs, TTL).await;
        // It still serves, and does not know: nothing else than the heartbeats has told the clients.
        assert_eq!(
            ensemble.admin(follower).mode().await.as_deref(),
            Some("follower"),
            "after {:?}",
            cut.elapsed()
        );
    }
}

/// Who comes back attaches to its session, and counts its deadline from then on: the follower may be cut off right behind that. ADR 13.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_lost_before_the_ensemble_can_give_it_away_when_its_follower_is_cut_off_as_its_client_comes_back()
 {
    const TTL: Duration = Duration::from_millis(2400);
    for offset in [0, 100, 200, 300].map(Duration::from_millis) {
        let ensemble = Ensemble::start_patient("case").await;
        let [follower, _] = ensemble.followers().await;
        let leader = ensemble.leader().await;
        let [here, there] = [follower, leader].map(|member| url_of(&ensemble.address(member)));
        let pairs = holders_and_heirs(12, TTL, &here, &client(&there)).await;
        ensemble.front(follower).newcomers(Newcomers::Refuse);
        ensemble.front(follower).reset(Links::All);
        // Its own client would be back by itself, later than another one is attached.
        tokio::time::sleep(TTL / 4).await;
        ensemble.front(follower).newcomers(Newcomers::Serve);
        let back = pairs
            .iter()
            .map(|(_, guard, _)| async { while guard.is_held() && guard.extend().await.is_err() {} });
        within("those who come back", TTL, select_all(back.map(Box::pin))).await;
        tokio::time::sleep(offset).await;
        // As long as they can get. Who is not back yet gets nothing.
        let extended = join_all(pairs.iter().map(|(_, guard, _)| tokio::time::timeout(TICK, guard.extend())));
        drop(extended.await);
        let fresh = pairs.iter().filter(|(_, guard, _)| guard.remaining() > TTL * 2 / 3).count();
        assert!(fresh > 0, "nobody came back");
        ensemble.isolate(follower);
        assert_lost_before_the_next_grant(pairs, TTL).await;
    }
}

/// A client with a lock that it holds, and what becomes of whoever waits for that.
type Pair = (Client, Guard, JoinHandle<(Duration, bool)>);

/// So many clients of one member hold a lock each, and somebody waits for each of these elsewhere.
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

/// Waits for a lock that is held, and says what the holder knows at the moment of the grant: what is left to it, and whether
/// its lost signal has fired.
async fn next_grant(others: &Client, guard: &Guard) -> JoinHandle<(Duration, bool)> {
    let (lock, hold) = (others.mutex(guard.name().as_str()).with_options(options()), guard.hold());
    let task = tokio::spawn(async move {
        let next = lock.acquire().await.unwrap();
        let known = (hold.remaining(), hold.lost().now_or_never().is_some());
        drop(next);
        known
    });
    await_queue(others, guard.name().as_str(), 2).await;
    task
}
