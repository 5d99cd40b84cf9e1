//! The costs of locks, as the server counts them.
//!
//! All tests use one server, one test after the other, so that no other requests are counted.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lock_conformance::{
    Client, SLACK,
    audit::{eventually, within},
};
use lock_core::{AcquireOptions, DistributedLock};
use tokio::{
    sync::{Mutex, MutexGuard, OnceCell},
    task::JoinSet,
};

use crate::{
    common::{client, name, options, queue, soon, take, waiting},
    server::{Containers, TestServer, ZkServer},
};

/// So long that no lock is renewed, and no waiter looks again, while requests are counted.
fn long() -> AcquireOptions {
    let hour = Duration::from_secs(3600);
    options().ttl(hour).wait(Duration::from_secs(60)).look_again(hour, hour)
}

/// A chroot on the counting server, for one test at a time.
struct Counted {
    server: TestServer,
    _alone: MutexGuard<'static, ()>,
}

/// The requests of all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    writes: u64,
    reads: u64,
}

impl Counted {
    async fn start() -> Self {
        static ALONE: Mutex<()> = Mutex::const_new(());
        static SERVER: OnceCell<Arc<ZkServer>> = OnceCell::const_new();
        let alone = ALONE.lock().await;
        // A removed container would have to be created again.
        let start = || async { Arc::new(ZkServer::start(|member| member.treats(Containers::Kept)).await) };
        let counted =
            Self { server: TestServer::at(Arc::clone(SERVER.get_or_init(start).await)), _alone: alone };
        counted.rests_with(0).await;
        counted
    }

    /// A client with one session. It sends no ping, which would count as a read, during the time for which its connection may be silent,
    /// which is half an hour or more.
    async fn client(&self) -> Client {
        let client = client(&format!("{}&command_timeout=1h&connect_timeout=1h", self.server.url()));
        take(&client, "first", &long()).await.release().await.unwrap().confirmed().unwrap();
        client
    }

    /// The requests so far.
    async fn asked(&self) -> Asked {
        let admin = self.server.admin();
        Asked {
            writes: admin.counts("zk_cnt_updatelatency").await,
            reads: admin.counts("zk_cnt_readlatency").await,
        }
    }

    async fn asked_since(&self, before: Asked) -> Asked {
        let now = self.asked().await;
        Asked { writes: now.writes - before.writes, reads: now.reads - before.reads }
    }

    /// Waits until there are at most this many sessions, and no more requests come. Returns the requests so far.
    async fn rests_with(&self, sessions: u64) -> Asked {
        const QUIET: Duration = Duration::from_millis(250);
        let sessions_are_gone =
            || async { self.server.admin().counts("zk_global_sessions").await <= sessions };
        eventually("the others have closed their sessions", SLACK * 2, sessions_are_gone).await;
        let quiet = async {
            let (mut before, mut since) = (self.asked().await, Instant::now());
            while since.elapsed() < QUIET {
                tokio::time::sleep(QUIET / 10).await;
                let now = self.asked().await;
                if now != before {
                    (before, since) = (now, Instant::now());
                }
            }
            before
        };
        within("all at rest", SLACK * 4, quiet).await
    }
}

/// A create and the look after it are sent together; the look asks for the number of nodes, and not for their names.
#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_lock_costs_two_writes_and_one_look() {
    const LOCKS: u64 = 100;
    let counted = Counted::start().await;
    let client = counted.client().await;
    // From now on, the container of each lock exists.
    let mut locks = Vec::new();
    for i in 0..LOCKS {
        let lock = client.mutex(&format!("job {i}")).with_options(long());
        lock.acquire().await.unwrap().release().await.unwrap().confirmed().unwrap();
        locks.push(lock);
    }
    let before = counted.rests_with(1).await;
    let mut guards = Vec::new();
    for lock in &locks {
        guards.push(lock.acquire().await.unwrap());
    }
    assert_eq!(counted.asked_since(before).await, Asked { writes: LOCKS, reads: LOCKS }, "to take them");
    let before = counted.asked().await;
    for guard in guards {
        guard.release().await.unwrap().confirmed().unwrap();
    }
    assert_eq!(counted.asked_since(before).await, Asked { writes: LOCKS, reads: 0 }, "to release them");
}

/// The watch on the node fires, as if the node were gone. The watch is set again, and the node is not read again and again.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_node_is_written_to_looks_once_more_and_waits_on() {
    let counted = Counted::start().await;
    let (holder, other) = (counted.client().await, counted.client().await);
    let guard = take(&holder, "job", &long()).await;
    let waiter = waiting(&other, "job", &long(), 2).await;
    let admin = counted.server.admin();
    let node = admin.node(&name("job"), 1).await;
    for _ in 0..3 {
        let before = counted.rests_with(2).await;
        admin.write(&node).await;
        counted.rests_with(2).await;
        let asked = counted.asked_since(before).await;
        // The writer opened a session for the write, and closed it.
        assert_eq!(asked.writes, 3, "{asked:?} for one change");
        // A list of the queue, and the watch on the own node. The watch on the holder exists, or is set again.
        assert!((1..=MOST_TO_JOIN).contains(&asked.reads), "{asked:?} for one change");
    }
    assert!(!waiter.is_finished());
    guard.release().await.unwrap().confirmed().unwrap();
    let next = soon("the waiter whose node was written to", waiter).await.unwrap();
    next.release().await.unwrap().confirmed().unwrap();
}

/// This includes a look that is dropped before its end.
#[tokio::test(flavor = "multi_thread")]
async fn to_look_at_a_queue_costs_one_write_and_leaves_nothing_behind() {
    const LOOKS: u64 = 100;
    let counted = Counted::start().await;
    let (client, admin) = (counted.client().await, counted.server.admin());
    let guard = take(&client, "job", &long()).await;
    assert_eq!(queue(&client, "job").await.len(), 1);
    let nodes = admin.nodes_of_sessions().await;
    let before = counted.rests_with(1).await;
    for _ in 0..LOOKS {
        assert_eq!(queue(&client, "job").await.len(), 1);
    }
    assert_eq!(counted.asked_since(before).await.writes, LOOKS);
    for i in 0..LOOKS {
        let lock = client.mutex("job");
        let _ = tokio::time::timeout(Duration::from_micros(50 * i), lock.queue()).await;
    }
    assert_eq!(queue(&client, "job").await.len(), 1);
    assert_eq!(admin.nodes_of_sessions().await, nodes, "left by looks");
    guard.release().await.unwrap().confirmed().unwrap();
}

/// Everything that has to be asked about other entries is asked while another client has the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_off_to_another_process_looks_at_nothing_but_the_waiters_node() {
    let counted = Counted::start().await;
    let clients = [counted.client().await, counted.client().await, counted.client().await];
    let mut guard = Some(take(&clients[0], "job", &long()).await);
    let mut next = waiting(&clients[1], "job", &long(), 2).await;
    for round in 2..8 {
        let last = waiting(&clients[round % 3], "job", &long(), 3).await;
        guard.take().unwrap().release().await.unwrap();
        guard = Some(within("the next", SLACK, next).await.unwrap());
        next = last;
        // By now, the waiter behind has asked.
        let before = counted.rests_with(3).await;
        guard.take().unwrap().release().await.unwrap();
        guard = Some(within("the next", SLACK, next).await.unwrap());
        assert_eq!(counted.asked_since(before).await, Asked { writes: 1, reads: 1 }, "in round {round}");
        next = waiting(&clients[(round + 1) % 3], "job", &long(), 2).await;
    }
}

/// If several clients hold permits and one of them leaves, all waiters that watch it get the event. Only the next holder has to do
/// something, and the waiter that has lost its lookahead.
#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_one_permit_costs_those_who_wait_on_nothing() {
    const LIMIT: u32 = 4;
    let counted = Counted::start().await;
    let (holder, other) = (counted.client().await, counted.client().await);
    let permit = |client: &Client| client.semaphore("job", LIMIT).permits(1).unwrap().with_options(long());
    let mut held = Vec::new();
    for _ in 0..LIMIT {
        held.push(soon("a permit", permit(&holder).acquire()).await.unwrap());
    }
    let mut waiters = JoinSet::new();
    for len in 0..u64::from(LIMIT) * 2 {
        let lock = permit(&other);
        waiters.spawn(async move { lock.acquire().await.unwrap() });
        let stand = || async { counted.server.admin().queues().await == u64::from(LIMIT) + len + 1 };
        eventually("one more in the queue", SLACK, stand).await;
    }
    let before = counted.rests_with(2).await;
    held.pop().unwrap().release().await.unwrap().confirmed().unwrap();
    let next = soon("the next permit", waiters.join_next()).await.unwrap().unwrap();
    counted.rests_with(2).await;
    let asked = counted.asked_since(before).await;
    assert!(asked.writes == 1 && asked.reads <= 3, "{asked:?} for one permit");
    next.release().await.unwrap().confirmed().unwrap();
    drop(held);
    while let Some(granted) = soon("all permits", waiters.join_next()).await {
        granted.unwrap().release().await.unwrap().confirmed().unwrap();
    }
}

/// To join the queue: the create, the number of nodes, their names, the holder of the lock, and three watches: on the entry ahead, on the
/// one ahead of that, and on the own node.
const MOST_TO_JOIN: u64 = 7;

/// Lets this many waiters queue and each hold the lock in turn. Returns the costs of both.
async fn queue_of(counted: &Counted, waiters: u64, clients: usize) -> [Asked; 2] {
    let name = format!("job of {waiters} in {clients}");
    let holder = counted.client().await;
    let mut others = Vec::new();
    for _ in 0..clients {
        others.push(counted.client().await);
    }
    let guard = take(&holder, &name, &long()).await;
    let before = counted.rests_with(clients as u64 + 1).await;
    let mut granted = JoinSet::new();
    let locks: Vec<_> = others.iter().map(|other| other.mutex(&name)).collect();
    for lock in locks.iter().cycle().take(usize::try_from(waiters).unwrap()) {
        let lock = lock.clone();
        granted.spawn(async move { lock.acquire_with(&long()).await.unwrap().release().await.unwrap() });
    }
    // Each node exists from the answer to its create on. To see it costs no request.
    let stand = || async { counted.server.admin().queues().await == waiters + 1 };
    eventually("all of them in the queue", SLACK * 4, stand).await;
    // This also waits for the lists and the watches, which are requested right after.
    counted.rests_with(clients as u64 + 1).await;
    let joined = counted.asked_since(before).await;

    let before = counted.asked().await;
    guard.release().await.unwrap();
    for _ in 0..waiters {
        let released = within("the turn of each", SLACK * 4, granted.join_next()).await;
        released.unwrap().unwrap().confirmed().unwrap();
    }
    counted.rests_with(clients as u64 + 1).await;
    let handed = counted.asked_since(before).await;
    println!("{waiters} waiters in {clients}: {joined:?} to join, {handed:?} for the hand-overs");
    [joined, handed]
}

/// A thousand waiters keep the machine busy, so this test runs when no other does.
mod alone {
    use super::*;

    /// In one process a hand-off costs the delete and a look at the waiter's own node. Among several processes each waiter lists the queue
    /// once more when its lookahead is admitted.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_hand_over_costs_the_same_with_one_waiter_and_with_a_thousand() {
        let counted = Counted::start().await;
        for (waiters, clients) in [(1, 1), (10, 1), (1000, 1), (10, 2), (200, 2)] {
            let [joined, handed] = queue_of(&counted, waiters, clients).await;
            let joined = joined.writes + joined.reads;
            assert!(joined <= MOST_TO_JOIN * waiters, "{joined} requests for {waiters} to stand in a queue");
            // The first release is that of the holder that they all waited for.
            assert_eq!(handed.writes, waiters + 1, "{handed:?} for the turns of {waiters}");
            let looks = if clients == 1 { waiters } else { waiters * 2 };
            assert!(handed.reads <= looks, "{handed:?} for the turns of {waiters} in {clients}");
        }
    }
}
