//! What locks cost, as the server counts it.

mod common;
mod server;

use std::time::{Duration, Instant};

use common::{client, name, options, queue, soon, take, waiting};
use lock_conformance::{SLACK, audit::await_queue, audit::within};
use lock_core::{AcquireOptions, DistributedLock, Release};
use server::OwnServer;
use tokio::task::JoinSet;

/// So long that nothing is renewed, and nobody looks again, while something is counted.
fn long() -> AcquireOptions {
    options().ttl(Duration::from_secs(3600)).wait(Duration::from_secs(60))
}

fn url(server: &OwnServer) -> String {
    server::own_url("", &server.address())
}

/// What a server was asked, by all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    writes: u64,
    reads: u64,
}

impl Asked {
    async fn so_far(server: &OwnServer) -> Self {
        let admin = server.admin();
        Self {
            writes: admin.counts("zk_cnt_updatelatency").await,
            reads: admin.counts("zk_cnt_readlatency").await,
        }
    }

    async fn since(self, server: &OwnServer) -> Self {
        let now = Self::so_far(server).await;
        Self { writes: now.writes - self.writes, reads: now.reads - self.reads }
    }

    /// The same without pings.
    async fn since_but_for_pings(self, server: &OwnServer, since: Instant) -> Self {
        let asked = self.since(server).await;
        Self { reads: asked.reads.saturating_sub(pings(since)), ..asked }
    }

    fn all(self) -> u64 {
        self.writes + self.reads
    }
}

/// A create and the look behind it go out together; the look is for the number of nodes, and not for their names.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_nobody_else_wants_costs_one_write_and_one_look_to_take_and_one_write_to_release() {
    const LOCKS: u64 = 100;
    const FEW: u64 = 25;
    let server = OwnServer::start("case").await;
    let client = client(&url(&server));
    // Connects, and the container of each lock is there from now on: a second holder keeps it.
    let mut keep = Vec::new();
    for i in 0..LOCKS {
        let readers = client.rwlock(&format!("job {i}"));
        keep.push((readers.read().acquire_with(&long()).await.unwrap(), readers));
    }
    let before = Asked::so_far(&server).await;
    let mut guards = Vec::new();
    for (_, readers) in &keep {
        guards.push(readers.read().acquire_with(&long()).await.unwrap());
    }
    let shared = before.since(&server).await;
    assert_eq!(shared.writes, LOCKS, "{shared:?}");
    let before = Asked::so_far(&server).await;
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
    let releases = before.since(&server).await;
    assert_eq!(releases, Asked { writes: LOCKS, reads: 0 }, "{releases:?}");
    drop(keep);

    // The same name again and again: its container outlives the moment between two.
    let again = client.mutex("again");
    again.acquire_with(&long()).await.unwrap().release().await.unwrap();
    let before = Asked::so_far(&server).await;
    for _ in 0..LOCKS {
        let guard = again.acquire_with(&long()).await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Release::Released);
    }
    let Asked { writes, reads } = before.since(&server).await;
    // Pings count as reads; and a container may have been removed between two, and is made anew.
    assert!((2 * LOCKS..=2 * LOCKS + FEW).contains(&writes), "{writes} writes for {LOCKS} pairs");
    assert!((LOCKS..=LOCKS + FEW).contains(&reads), "{reads} looks for {LOCKS} pairs");
}

/// The watch on it fires, as if it were gone; what has fired once is made anew, and not asked again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_node_is_written_to_by_somebody_looks_once_more_and_waits_on() {
    let server = OwnServer::start("case").await;
    let (holder, other) = (client(&url(&server)), client(&url(&server)));
    let guard = take(&holder, "job", &long()).await;
    let waiter = waiting(&other, "job", &long(), 2).await;
    let node = server.admin().node(&name("job"), 1).await;
    for _ in 0..3 {
        let before = Asked::so_far(&server).await;
        server.admin().write(&node).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let asked = before.since(&server).await;
        assert!(asked.all() <= PINGS, "{asked:?} for one change");
    }
    assert!(!waiter.is_finished());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    let next = soon("the waiter whose node was written to", waiter).await.unwrap();
    assert_eq!(next.release().await.unwrap(), Release::Released);
}

/// Nor does one that is not waited for to its end.
#[tokio::test(flavor = "multi_thread")]
async fn to_look_at_a_queue_costs_one_write_and_leaves_nothing_behind() {
    const LOOKS: u64 = 100;
    let server = OwnServer::start("case").await;
    let client = client(&url(&server));
    let guard = take(&client, "job", &long()).await;
    assert_eq!(queue(&client, "job").await.len(), 1);
    let (before, nodes) = (Asked::so_far(&server).await, server.admin().nodes_of_sessions().await);
    for _ in 0..LOOKS {
        assert_eq!(queue(&client, "job").await.len(), 1);
    }
    // The rest are heartbeats, and the sessions of whoever counts.
    let writes = before.since(&server).await.writes;
    assert!(writes <= LOOKS + PINGS, "{writes} writes for {LOOKS} looks");
    for i in 0..LOOKS {
        let lock = client.mutex("job");
        let _ = tokio::time::timeout(Duration::from_micros(50 * i), lock.queue()).await;
    }
    assert_eq!(queue(&client, "job").await.len(), 1);
    assert_eq!(server.admin().nodes_of_sessions().await, nodes, "left by looks");
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// In one process a turn costs the delete, and nothing else; among several each waiter asks once more, when the one ahead of it is
/// admitted.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_costs_the_same_with_one_waiter_and_with_a_thousand() {
    for (waiters, clients) in [(1, 1), (10, 1), (100, 1), (1000, 1), (10, 2), (200, 2)] {
        let [joined, handed] = queue_of(waiters, clients).await;
        // Into the queue: the create, the number of nodes, their names, who holds the lock, and three watches: for the one ahead, the
        // one ahead of that, and for one's own.
        let joined = joined.all();
        assert!(joined <= 7 * waiters, "{joined} requests for {waiters} to stand in a queue");
        assert!(handed.writes <= waiters + 1 + HEARTBEATS, "{handed:?} for the turns of {waiters}");
        let looks = if clients == 1 { 0 } else { waiters };
        assert!(handed.reads <= looks, "{handed:?} for the turns of {waiters} in {clients}");
    }
}

/// Whatever there is to ask is asked while somebody else has the lock.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_asked_between_a_release_and_the_grant_to_a_waiter_of_another_process() {
    let server = OwnServer::start("case").await;
    let clients = [client(&url(&server)), client(&url(&server)), client(&url(&server))];
    let mut guard = Some(take(&clients[0], "job", &long()).await);
    let mut next = waiting(&clients[1], "job", &long(), 2).await;
    let mut asked = Vec::new();
    for round in 2..12 {
        let last = waiting(&clients[round % 3], "job", &long(), 3).await;
        guard.take().unwrap().release().await.unwrap();
        guard = Some(within("the next", SLACK, next).await.unwrap());
        next = last;
        // The one behind has asked by now.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let before = Asked::so_far(&server).await;
        guard.take().unwrap().release().await.unwrap();
        guard = Some(within("the next", SLACK, next).await.unwrap());
        asked.push(before.since(&server).await.reads);
        next = waiting(&clients[(round + 1) % 3], "job", &long(), 2).await;
    }
    // Pings are reads, too; but not in each round.
    assert!(asked.contains(&0), "{asked:?}");
}

/// More than there are of them while something is counted.
const HEARTBEATS: u64 = 10;

/// More than the clients send in some seconds while nothing else happens.
const PINGS: u64 = 60;

/// What they send in a time, at the most: three sessions, each of which pings three times a second, and whoever counts. A ping is a read.
fn pings(since: Instant) -> u64 {
    PINGS + 15 * since.elapsed().as_secs()
}

/// Lets so many stand in a queue, and each have the lock in turn. Gives what the one and the other cost.
async fn queue_of(waiters: u64, clients: usize) -> [Asked; 2] {
    let server = OwnServer::start("case").await;
    let holder = client(&url(&server));
    let others: Vec<_> = (0..clients).map(|_| client(&url(&server))).collect();
    let guard = take(&holder, "job", &long()).await;
    for other in &others {
        // It has its session before anything is counted.
        let warm = waiting(other, "job", &long(), 2).await;
        warm.abort();
        await_queue(&holder, "job", 1).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;

    let (before, since) = (Asked::so_far(&server).await, Instant::now());
    let mut granted = JoinSet::new();
    let locks: Vec<_> = others.iter().map(|other| other.mutex("job")).collect();
    for lock in locks.iter().cycle().take(usize::try_from(waiters).unwrap()) {
        let lock = lock.clone();
        granted.spawn(async move { lock.acquire_with(&long()).await.unwrap().release().await.unwrap() });
    }
    within("all of them in the queue", SLACK * 4, async {
        // Each node is there from the answer to its create on, which costs us nothing to see.
        while server.admin().footprint().await.queues < waiters + 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    // The lists and the watches, too, which are asked for right after: until hardly more than pings come.
    within("all of them at rest", SLACK * 4, async {
        loop {
            let before = Asked::so_far(&server).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            if before.since(&server).await.all() <= 4 * (clients as u64 + 1) {
                return;
            }
        }
    })
    .await;
    let joined = before.since_but_for_pings(&server, since).await;

    let (before, since) = (Asked::so_far(&server).await, Instant::now());
    guard.release().await.unwrap();
    for _ in 0..waiters {
        let released = within("the turn of each", SLACK * 4, granted.join_next()).await;
        assert_eq!(released.unwrap().unwrap(), Release::Released);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let handed = before.since_but_for_pings(&server, since).await;
    println!("{waiters} waiters in {clients}: {joined:?} to join, {handed:?} for the hand-overs");
    [joined, handed]
}
