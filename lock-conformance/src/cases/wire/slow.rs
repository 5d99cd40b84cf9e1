//! Slow connections.

use std::time::Duration;

use futures_util::future::{join, join_all};
use lock_core::{DistributedLock, Error, LostReason, Outage};

use super::proxied::{ProxiedClient, assert_holds_alone, renewed, warm};
use crate::{
    Flow, Gate, Links, Proxy, Relay, SLACK, TestEnv, Verb, Way,
    audit::{assert_free, soon, within},
    cases::{
        lease::{deadline_at_least, ms, now, queued_behind},
        stall_tolerant::stall_tolerant,
        steps::{assert_held_alone, long, mutex, queue, take_free, take_in_time},
    },
};

/// A try to renew is given up after a sixth of the ttl, but its late answer counts.
pub(crate) async fn a_lock_is_held_while_answers_take_longer_than_a_try_may(env: TestEnv) {
    // A longer delay would exceed the second of silence after which ZooKeeper's clients give up a connection.
    stall_tolerant(env, ms(2000), slow_answers).await;
}

async fn slow_answers(env: TestEnv, ttl: Duration) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name(&format!("job {ttl:?}"));
    let guard = take_free(&proxied.client.mutex(&name).with_options(long().ttl(ttl))).await;
    renewed(&proxied).await;
    proxied.proxy.order(Links::All, Way::Replies, &Flow::Delay(guard.ttl() / 4));
    let end_time = now() + guard.ttl() * 3;
    while now() < end_time {
        assert_held_alone(&guard, &mutex(&other, &name)).await;
        tokio::time::sleep(ms(20)).await;
    }
}

/// The lease is over before the grant arrives, whether requests or answers are slow.
pub(crate) async fn a_grant_that_takes_longer_than_its_ttl_is_never_returned(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name("job");
    let brief = long().ttl(ms(200)).renew(false);
    let lock = proxied.client.mutex(&name).with_options(brief.clone());
    let guard = take_in_time(&lock, &brief).await.unwrap();
    let ttl = guard.ttl();
    guard.release().await.unwrap();
    for way in [Way::Requests, Way::Replies] {
        proxied.proxy.order(Links::All, way, &Flow::Delay(ttl + ttl / 4));
        let answer = within("an answer", ttl * 10 + SLACK, lock.acquire()).await;
        // The store is too slow for the ttl, or so slow that it counts as away.
        assert!(matches!(&answer, Err(Error::TooSlow { .. } | Error::Backend { .. })), "{answer:?}");
        proxied.proxy.heal();
        assert_free(&other, &name).await;
    }
    // A session that many locks share lives on, and only the keeper knows that the lease of this one has ended.
    let shared = proxied.client.mutex(&name).with_options(long().ttl(ms(150)));
    proxied.proxy.order(Links::All, Way::Replies, &Flow::Delay(ms(250)));
    let answer = within("an answer to a try", SLACK * 2, shared.try_acquire()).await;
    assert!(matches!(&answer, Err(Error::TooSlow { .. } | Error::Backend { .. })), "{answer:?}");
    proxied.proxy.heal();
    assert_free(&other, &name).await;
}

/// It is lost at the deadline and not before, and before another client has the lock. Late requests take nothing from the next holder.
pub(crate) async fn a_lock_whose_renewals_take_longer_than_its_ttl_is_lost_at_its_deadline(env: TestEnv) {
    let (other, proxied) = (env.client().await, ProxiedClient::new(&env).await);
    let name = env.name("job");
    let guard = take_free(&proxied.client.mutex(&name).with_options(long().ttl(ms(900)))).await;
    let delay = guard.ttl() + guard.ttl() / 2;
    proxied.proxy.order(Links::All, Way::Requests, &Flow::Delay(delay));
    let deadline = deadline_at_least(&guard.hold());
    let waiting = tokio::spawn({
        let (lock, hold) = (mutex(&other, &name), guard.hold());
        async move {
            let next = lock.acquire().await.unwrap();
            (hold.is_held(), next)
        }
    });
    queued_behind(&other, &guard.hold()).await;
    assert_eq!(within("the loss", guard.ttl() + SLACK, guard.lost()).await, LostReason::Expired);
    assert!(now() >= deadline, "lost {:?} before its deadline", deadline.since(now()));
    let (held, next) = within("the next grant", guard.ttl() + SLACK, waiting).await.unwrap();
    assert!(!held, "granted to another while it was held");
    tokio::time::sleep(delay * 2).await;
    assert_holds_alone(&queue(&mutex(&other, &name)).await, &next);
    assert!(next.is_held() && !guard.is_held());
}

/// How many tasks ask at the same time: few enough that no client merges their requests, even if each asks three times.
const CROWD: u64 = 10;

/// How often each of them acquires and releases its lock.
const ROUNDS: u64 = 3;

/// How long nothing is answered: longer than the impatient wait, and much shorter than any time limit for a command.
const STALL: Duration = ms(700);

/// How many requests may come without a verb: heartbeats, and the handshake of a replaced connection.
const BESIDE: u64 = 30;

/// A store that stalls is overloaded. A client that repeats every request while it waits makes that worse. On a busy machine a stall may
/// exceed a time limit; then every request is repeated once.
pub(crate) async fn what_is_answered_late_is_asked_for_twice_at_most(env: TestEnv) {
    let relay = env.relay();
    let front = Proxy::start(relay.address(), env.wire().carries_hints());
    let proxied = ProxiedClient::by(front, &env).await;
    let counted = async {
        warm(&proxied.client, &env.name("warm")).await;
        let prompt = asked(&env, &proxied, &relay, Duration::ZERO).await;
        (prompt, asked(&env, &proxied, &relay, STALL).await)
    };
    let (prompt, late) = relay.watch(counted).await;
    println!("requests and verbs, when answers are prompt: {prompt:?}, when they are late: {late:?}");
    let verbs = 2 * CROWD * ROUNDS;
    assert!(late.1 <= 2 * verbs, "{} verbs, where {verbs} do", late.1);
    let most = 2 * prompt.0.max(verbs) + BESIDE;
    assert!(late.0 <= most, "{} late requests, where {} do when answers are prompt", late.0, prompt.0);
}

/// Many tasks each acquire and release their own lock, again and again, and all answers are late. Returns the number of requests, and of
/// calls of verbs.
async fn asked(env: &TestEnv, proxied: &ProxiedClient, relay: &Relay, late: Duration) -> (u64, u64) {
    let requests = || relay.asked().values().sum::<u64>();
    let verbs = || (proxied.asked.calls(Verb::Enter) + proxied.asked.calls(Verb::Leave)) as u64;
    let before = (requests(), verbs());
    let patient = long().outage(Outage::Wait);
    let lock =
        |i: u64| proxied.client.mutex(&env.name(&format!("{i} {late:?}"))).with_options(patient.clone());
    let locks: Vec<_> = (0..CROWD).map(lock).collect();
    for _ in 0..ROUNDS {
        let taking = join_all(locks.iter().map(|lock| async move { lock.acquire().await.unwrap() }));
        let held = stalled(proxied, late, taking).await;
        let releasing = join_all(held.into_iter().map(|guard| async move { guard.release().await.unwrap() }));
        stalled(proxied, late, releasing).await;
    }
    (requests() - before.0, verbs() - before.1)
}

/// Does some work while nothing is answered for this time.
async fn stalled<T>(proxied: &ProxiedClient, late: Duration, work: impl Future<Output = T>) -> T {
    if late.is_zero() {
        return soon("what is not late", work).await;
    }
    let gate = Gate::new();
    proxied.proxy.order(Links::All, Way::Replies, &Flow::Hold(gate.clone()));
    let answers = async {
        tokio::time::sleep(late).await;
        gate.open();
        proxied.proxy.heal();
    };
    join(soon("what was late", work), answers).await.0
}
