//! The costs of locks, as the server counts them.

mod common;
mod server;

use std::{collections::BTreeMap, time::Duration};

use common::{Client, LATE, name, soon, told};
use futures_util::{
    FutureExt,
    future::{join_all, poll_immediate},
};
use lock_conformance::{
    Flow, Gate, Links, Newcomers, Proxy, Way,
    audit::{eventually, within},
};
use lock_core::{DistributedLock, Error};
use server::{TestServer, answered, quiet, requests};
use tokio::task::JoinSet;

/// With a heartbeat so long that streams are not asked for progress during a test.
fn url(server: &TestServer) -> String {
    format!("etcd://{}/case?heartbeat=1h", server.address())
}

/// The requests since `before`, without those of the tests themselves.
async fn since(server: &TestServer, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut now = requests(&server.address()).await;
    now.retain(|method, count| {
        *count -= before.get(method).copied().unwrap_or(0);
        *count > 0 && method != "Maintenance/Status"
    });
    now
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_without_contention_costs_one_request_to_take_one_to_release() {
    const LOCKS: u64 = 50;
    let server = TestServer::start("case").await;
    let client = Client::new(&url(&server));
    // This connects, and gets a lease.
    client.take("first", &told()).await.release().await.unwrap();
    let before = requests(&server.address()).await;
    let mut guards = Vec::new();
    for i in 0..LOCKS {
        guards.push(client.take(&format!("job {i}"), &told()).await);
    }
    assert_eq!(since(&server, &before).await, BTreeMap::from([("KV/Txn".to_owned(), LOCKS)]));
    let before = requests(&server.address()).await;
    for guard in guards {
        guard.release().await.unwrap().confirmed().unwrap();
    }
    let releases = since(&server, &before).await;
    assert_eq!(releases.values().sum::<u64>(), LOCKS, "{releases:?}");
}

/// PR16, PR18: a waiter that saw all entries ahead needs no look at the queue when the last of them goes, only at its own entry.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_granted_by_the_delete_that_makes_it_fit_and_one_read() {
    let server = TestServer::start("case").await;
    let (holder, other) = (Client::new(&url(&server)), Client::new(&url(&server)));
    let first = holder.take("job", &told()).await;
    let second = holder.waiting("job", &told(), 2).await;
    let third = other.waiting("job", &told(), 3).await;
    quiet(&server.address(), &[]).await;
    let mut guard = first;
    for waiter in [second, third] {
        let before = requests(&server.address()).await;
        guard.release().await.unwrap().confirmed().unwrap();
        guard = soon("the next", waiter).await.unwrap();
        let mut asked = since(&server, &before).await;
        // The end of a watch is a message on the stream.
        asked.remove("Watch/Watch");
        let expected =
            [("KV/DeleteRange", 1), ("KV/Txn", 1)].map(|(method, count)| (method.to_owned(), count));
        assert_eq!(asked, BTreeMap::from(expected), "the delete, and the read");
    }
    guard.release().await.unwrap().confirmed().unwrap();
}

/// In a short queue, the look that follows the watches reads all entries, and shows immediately that none is ahead any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_blocker_leaves_before_its_watch_asks_once_more() {
    let server = TestServer::start("case").await;
    let direct = url(&server);
    let server = server.behind_proxy();
    let (holder, other) =
        (Client::new(&direct), Client::new(&format!("{}&command_timeout=30s", url(&server))));
    let guard = holder.take("job", &told()).await;
    // By now, the client has its lease and its stream, and knows that this queue is contended.
    let warm = other.waiting("job", &told(), 2).await;
    warm.abort();
    holder.await_queue("job", 1).await;
    let before = quiet(&server.address(), &[]).await;
    let gate = Gate::new();
    server.proxy().order(Links::All, Way::Replies, &Flow::Hold(gate.clone()));
    let lock = other.mutex("job");
    let waiter = tokio::spawn(async move { lock.acquire_with(&told()).await.unwrap() });
    holder.await_queue("job", 2).await;
    guard.release().await.unwrap().confirmed().unwrap();
    // Only now, the answer arrives that an entry is ahead.
    gate.open();
    server.proxy().heal();
    let guard = soon("the waiter", waiter).await.unwrap();
    assert_eq!(since(&server, &before).await["KV/Txn"], 2, "one to stand in the queue, and one to look");
    guard.release().await.unwrap().confirmed().unwrap();
}

/// An entry whose create was not answered may still be put into the queue: each leave sets a tombstone, which restarts no other entry (PR08).
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_that_gives_up_unanswered_costs_little_and_leaves_no_entries() {
    const CROWD: u64 = 200;
    let server = TestServer::start("case").await;
    let client = Client::new(&url(&server));
    let guard = client.take("job", &told()).await;
    let before = requests(&server.address()).await;
    let lock = client.mutex("job");
    let options = told();
    let crowd: Vec<_> = (0..CROWD).map(|_| lock.acquire_with(&options).now_or_never()).collect();
    assert!(crowd.iter().all(Option::is_none));
    guard.release().await.unwrap().confirmed().unwrap();
    client.locks.close(LATE).await.unwrap();
    assert_eq!(server.admin().count(&name("job")).await, 0);
    let asked = since(&server, &before).await;
    // A create and a leave. Each is repeated once if the machine paused for longer than its time limit.
    let most = CROWD * 5 / 2;
    assert!(asked["KV/Txn"] <= most, "{asked:?} for a crowd of {CROWD}");
}

/// PR08: the create of an entry that gave up may still arrive. It is refused, and no other create in flight is.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_in_doubt_makes_none_of_a_hundred_others_begin_again() {
    const OTHERS: u64 = 100;
    let server = TestServer::start("case").await;
    // The keeper's connection names the key of evictions, which it watches.
    let is_keepers = |sent: &[u8]| sent.windows(7).any(|part| part == b"case/e1");
    let proxy = Proxy::start(server.address().parse().unwrap(), is_keepers);
    let client = Client::new(&format!("etcd://{}/case?command_timeout=60s&heartbeat=1h", proxy.address()));
    // This connects, and gets a lease.
    client.take("first", &told()).await.release().await.unwrap().confirmed().unwrap();
    eventually("the keeper's stream", LATE, || async { proxy.hinting() == 1 }).await;
    let before = quiet(&server.address(), &[]).await;
    let direct = server.address();
    let carried_out = async || answered(&direct, "KV/Txn").await;
    let already = carried_out().await;
    let gate = Gate::new();
    proxy.order(Links::OpenCommands, Way::Requests, &Flow::Hold(gate.clone()));
    let options = told();
    let locks: Vec<_> = (0..OTHERS).map(|i| client.mutex(&format!("job {i}"))).collect();
    // Their requests are in flight, before or at the gate.
    let mut others: Vec<_> = locks.iter().map(|lock| lock.acquire_with(&options)).collect();
    for other in &mut others {
        assert!(poll_immediate(other).await.is_none());
    }
    assert!(client.mutex("doubted").acquire_with(&options).now_or_never().is_none());
    // The keeper uses a connection of its own.
    eventually("the leave", LATE, || async { carried_out().await > already }).await;
    gate.open();
    for guard in soon("those who were on their way", join_all(others)).await {
        assert!(guard.unwrap().is_held());
    }
    let asked = since(&server, &before).await;
    assert_eq!(server.admin().count(&name("doubted")).await, 0);
    // The keeper has removed the doubted entry, whose create was sent or not. The other guards are dropped, and leave with a delete.
    let most = OTHERS + 2;
    assert!(asked["KV/Txn"] <= most, "{asked:?} for {OTHERS} that began, and one that gave up");
}

/// Nothing was sent, so there is no lease to revoke. A revoke would be repeated until the end of the outage, and a close waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn those_who_tried_in_an_outage_cost_nothing_when_it_is_over() {
    const TRIES: usize = 20;
    let server = TestServer::start("case").await;
    let direct = server.address();
    let revokes = async || answered(&direct, "Lease/LeaseRevoke").await;
    let server = server.behind_proxy();
    server.proxy().newcomers(Newcomers::Refuse);
    let client = Client::new(&url(&server));
    let (lock, options) = (client.mutex("job"), told().renew(false));
    // These are dropped while they wait for a connection.
    assert!((0..TRIES).all(|_| lock.try_acquire_with(&options).now_or_never().is_none()));
    let tries = (0..TRIES).map(|_| lock.try_acquire_with(&options));
    for tried in soon("an error", join_all(tries)).await {
        assert!(matches!(tried, Err(Error::Backend { .. })), "{tried:?}");
    }
    server.proxy().heal();
    client.locks.close(LATE).await.unwrap();
    assert_eq!(revokes().await, 0);
}

/// Of several holders, only the next entry watches the first one. As many waiters as there are permits watch the last one. Only the next
/// of them is admitted: the others look again, and watch one more entry.
#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_one_permit_makes_fewer_look_than_there_are_permits() {
    const LIMIT: u32 = 12;
    let server = TestServer::start("case").await;
    // A request that is not answered within its time limit is sent again, and counts twice. So the limit is longer than a busy machine
    // pauses.
    let url = format!("{}&command_timeout=60s", url(&server));
    let (holder, other) = (Client::new(&url), Client::new(&url));
    let permit = |client: &Client| {
        client.locks.semaphore("job", LIMIT).unwrap().permits(1).unwrap().with_options(told())
    };
    let mut held = Vec::new();
    for _ in 0..LIMIT {
        held.push(soon("a permit that is free", permit(&holder).acquire()).await.unwrap());
    }
    let mut waiters = JoinSet::new();
    for len in held.len() + 1..=held.len() * 3 {
        let lock = permit(&other);
        waiters.spawn(async move { lock.acquire().await.unwrap() });
        holder.await_queue("job", len).await;
    }
    let first = held.remove(0);
    let last = held.pop().expect("there are more");
    // One read for the next holder; for each of the others a look, and one at the entries that it watches then.
    for (leaver, most) in [(first, 1), (last, 2 * u64::from(LIMIT) - 1)] {
        let before = quiet(&server.address(), &[]).await;
        leaver.release().await.unwrap().confirmed().unwrap();
        held.push(soon("the next", waiters.join_next()).await.unwrap().unwrap());
        let after = quiet(&server.address(), &[]).await;
        let asked = after["KV/Txn"] - before["KV/Txn"];
        assert!((1..=most).contains(&asked), "{asked} looks, where {most} do");
    }
    waiters.shutdown().await;
    for guard in held {
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

/// Very many waiters keep the machine busy, so this test runs when no other does.
mod alone {
    use super::*;

    /// As many requests for each turn as with a single waiter: H67, H81.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_turn_costs_the_same_with_one_waiter_and_with_a_thousand() {
        for waiters in [1, 10, 100, 1000] {
            let per_turn = queue_of(waiters).await;
            // A create, a read of the own place, and a delete; two watches, for the entry ahead and for the own one, and the end of both.
            // Many waiters share watches, and each has a look instead, at the entries that have come near.
            assert!(per_turn <= 700, "{per_turn}/100 requests for a turn among {waiters}");
        }
    }
}

/// Lets this many waiters queue and each hold the lock in turn. Returns the cost of each, in hundredths of a request.
async fn queue_of(waiters: u64) -> u64 {
    let server = TestServer::start("case").await;
    let (holder, other) = (Client::new(&url(&server)), Client::new(&url(&server)));
    let guard = holder.take("job", &told()).await;
    // The client gets its lease and its stream before the count begins.
    let warm = other.waiting("job", &told(), 2).await;
    warm.abort();
    holder.await_queue("job", 1).await;

    let before = quiet(&server.address(), &[]).await;
    let mut granted = JoinSet::new();
    // Each step of this test has a time limit. The waits have none, because the wait of the first would include the time that all the
    // others take to queue.
    let lock = other.mutex("job").with_options(told().wait(Duration::MAX));
    let mut counts = 0;
    for place in 1..=waiters {
        let lock = lock.clone();
        granted.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
        // A few at a time, because this does not count the cost of a crowd that comes at once.
        let most = if place == waiters { 0 } else { 10 };
        within("a place in the queue", LATE, async {
            loop {
                counts += 1;
                if server.admin().count(&name("job")).await + most > place {
                    break;
                }
                if let Some(ended) = granted.try_join_next() {
                    panic!("a waiter left the queue before its turn: {ended:?}");
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
    // If the lock were released before the entries ahead are watched, a waiter would have to look once more. So wait for the watches: one
    // for each waiter's own entry, and one for the holder.
    eventually("a watch for each place", LATE, || async {
        since(&server, &before).await.get("Watch/Watch").is_some_and(|sent| *sent > waiters)
    })
    .await;
    quiet(&server.address(), &[]).await;
    let joined = since(&server, &before).await;
    guard.release().await.unwrap();
    for _ in 0..waiters {
        let released = soon("the turn of each", granted.join_next()).await;
        released.unwrap().unwrap().confirmed().unwrap();
    }
    quiet(&server.address(), &[]).await;
    let all = since(&server, &before).await;
    println!("{waiters} waiters: {joined:?} when all stood in the queue, {all:?} in all");
    // Each count also sends a greeting, and the release of the first holder belongs to no turn.
    (all.values().sum::<u64>() - 1 - 2 * counts) * 100 / waiters
}
