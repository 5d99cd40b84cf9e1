//! How often a client connects while its server accepts no client, and when it is back.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lock_core::{DistributedLock, Guard, Outage};
use tokio::task::JoinSet;

use super::proxied::ProxiedClient;
use crate::{
    Flow, Gate, Links, Newcomers, SLACK, TestEnv, Verb, Way,
    audit::{eventually, within},
    cases::{
        lease::ms,
        steps::{long, mutex, take_free},
    },
};

/// How many holders there are, and how many waiters.
const CROWD: u64 = 50;

/// The ttl of waiters: each looks at a third of it, and so notices the outage soon.
const WAITING: Duration = Duration::from_secs(6);

/// How long connections are refused, counted from when each waiter has tried.
const OUTAGE: Duration = Duration::from_secs(3);

/// How long the server accepts connections without an answer: shorter than the time limit for opening one (2 s, on all stores), and as
/// long as most waiters pause by then, so that each of them tries meanwhile.
const SILENCE: Duration = ms(1500);

/// How often in a second a client tries to connect while connections are refused, however many waiters it has: all that need a
/// connection share one attempt.
const ATTEMPTS_A_SECOND: u64 = 2;

/// How many attempts may come on top of these at first, when every connection that was open is opened again and pauses are short. Measured
/// were 6 to 15 on an idle machine, for 100 to 310 tries. Without the sharing there is about one for each try.
const AT_FIRST: u64 = 16;

/// How often a waiter looks in an outage, on top of once a second. Pauses are at least 25, 50, 100, 200, 400 and 800 ms, and a second from
/// then on. The first look meets the outage, and the news that hints were lost may cause one more.
const LOOKS: u64 = 10;

/// How many connections are opened at most when the server is back, however many waiters need one. A client has one for each runtime (ours
/// and the keeper's) and each purpose (commands and hints), or one for each session. While the server does not answer, some are given up
/// after a second, and sessions of ZooKeeper may be closed and opened again. All of that is less than half of this. If each waiter opens
/// one, there are more than two thirds of [`CROWD`].
const BACK: u64 = 32;

/// How many more for each second that the server is silent beyond [`SILENCE`]. On a busy machine the silence may exceed the time limit for
/// opening a connection, which is then opened again: each time less than half of [`BACK`], and at most once a second.
const AGAIN: u64 = 16;

/// Both while connections are refused and when they are accepted again. Holders and waiters then go on over shared connections.
pub(crate) async fn a_crowd_comes_back_from_an_outage_over_few_connections(env: TestEnv) {
    let proxied = ProxiedClient::new(&env).await;
    let lock = |i: u64| mutex(&proxied.client, &env.name(&i.to_string()));
    let held = join_all((0..CROWD).map(|i| {
        let lock = lock(i);
        async move { take_free(&lock).await }
    }));
    let held = held.await;
    let mut waiting = JoinSet::new();
    for i in 0..CROWD {
        let lock = lock(i).with_options(long().ttl(WAITING).outage(Outage::Wait));
        waiting.spawn(async move { lock.acquire().await.unwrap().release().await.map(drop) });
    }
    let answered = || async { proxied.asked.answers(Verb::Enter) as u64 >= 2 * CROWD };
    eventually("an answer to each who waits", SLACK, answered).await;

    outage(&proxied).await;
    let before = proxied.proxy.opened();
    let silent = comes_back(&proxied, held).await;
    let all = async {
        while let Some(done) = waiting.join_next().await {
            done.unwrap().unwrap();
        }
    };
    within("a grant to each who waits", SLACK, all).await;
    let opened = proxied.proxy.opened() - before;
    println!("{opened} connections when the server was back, after {silent:?} without a word");
    let most = BACK + AGAIN * silent.saturating_sub(SILENCE).as_secs();
    assert!(opened <= most, "{opened} connections of {CROWD} who hold and {CROWD} who wait");
    proxied.client.locks.close(SLACK * 2).await.unwrap();
}

/// New connections are refused. Clients pause for longer after each failure, and share their attempts to connect.
async fn outage(proxied: &ProxiedClient) {
    let calls = |verb| proxied.asked.calls(verb) as u64;
    let all = || [Verb::Enter, Verb::Renew, Verb::Leave].into_iter().map(calls).sum::<u64>();
    let (before, looked, began) = (all(), calls(Verb::Enter), Instant::now());
    proxied.proxy.newcomers(Newcomers::Refuse);
    proxied.proxy.reset(Links::All);
    let each = || async { calls(Verb::Enter) >= looked + CROWD };
    eventually("a look of each who waits", SLACK, each).await;
    tokio::time::sleep(OUTAGE).await;
    let (tries, looks, refused) = (all() - before, calls(Verb::Enter) - looked, proxied.proxy.refused());
    let seconds = began.elapsed().as_secs() + 1;
    println!("{refused} connects in {seconds} s, for {tries} tries, of which {looks} look");
    assert!(looks <= CROWD * (LOOKS + seconds), "{looks} looks of {CROWD} in {seconds} s");
    let most = AT_FIRST + ATTEMPTS_A_SECOND * seconds;
    assert!(refused <= most, "{refused} connects in {seconds} s, for {tries} tries");
}

/// New connections are accepted, but not answered for a while: then all holders and waiters need a connection, and there is none.
/// Returns how long that was.
async fn comes_back(proxied: &ProxiedClient, held: Vec<Guard>) -> Duration {
    let gate = Gate::new();
    proxied.proxy.order(Links::All, Way::Replies, &Flow::Hold(gate.clone()));
    let began = Instant::now();
    proxied.proxy.newcomers(Newcomers::Serve);
    tokio::time::sleep(SILENCE).await;
    gate.open();
    let silent = began.elapsed();
    proxied.proxy.heal();
    for guard in held {
        eventually("a renewal once the server is back", SLACK, || async { guard.extend().await.is_ok() })
            .await;
        guard.release().await.unwrap();
    }
    silent
}
