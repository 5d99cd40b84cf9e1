//! Creates that come late: they were sent to two members, answered by one, and arrive at the other one later; or they had to wait for a
//! lease. And a lease that was requested from two members. PR08.

mod common;
mod server;

use std::{sync::Arc, time::Duration};

use common::{Client, HOUR, LATE, name, options, soon, told};
use etcd_client::GetOptions;
use lock_conformance::{Flow, Gate, Links, Newcomers, Proxy, ServerControl, Way, audit};
use lock_core::{
    Claim, Creates, Departure, DistributedLock, Entry, EntryId, Error, Released, Standing, Step, WaitMode,
};
use server::{TestServer, answered};

const NAME: &str = "job";

/// One server that its client takes for two members.
struct TwoWays {
    server: TestServer,
    ways: [Proxy; 2],
    client: Client,
}

impl TwoWays {
    async fn start() -> Self {
        let server = TestServer::start("case").await;
        let ways = [(); 2].map(|()| Proxy::start(server.address().parse().unwrap(), |_| true));
        let (one, other) = (ways[0].address(), ways[1].address());
        // A request that is not answered is sent again after a third of the command timeout. That is after all of the first request is held
        // at the gate, which takes half a second, even if the machine pauses for three seconds.
        let client = Client::new(&format!("etcd://{one},{other}/case?command_timeout=12s&heartbeat=1h"));
        // The client would not stay with a member that is slow to answer.
        ways[1].newcomers(Newcomers::Refuse);
        // This connects, and gets a lease.
        client.take("first", &told()).await.release().await.unwrap().confirmed().unwrap();
        ways[1].newcomers(Newcomers::Serve);
        Self { server, ways, client }
    }

    /// The request is sent the first way, where it is held until the gate opens, and then the other way, where it is answered.
    async fn detained<T>(&self, asking: impl Future<Output = T>) -> (T, Gate) {
        let (way, gate) = (&self.ways[0], Gate::new());
        way.order(Links::Open, Way::Requests, &Flow::Hold(gate.clone()));
        let detained = async {
            soon("a request at the gate", gate.reached()).await;
            // After this, all of the request is in flight, and it is not sent again yet.
            tokio::time::sleep(Duration::from_millis(500)).await;
            // The server must not learn that the client has an answer and cancels this request.
            way.order(Links::Open, Way::Requests, &Flow::Lose);
        };
        let (answer, ()) = tokio::join!(soon("an answer", asking), detained);
        (answer, gate)
    }

    /// Lets the held request arrive, and waits until it is carried out or refused.
    async fn let_in(&self, late: &Gate) {
        let direct = self.server.address();
        let txns = async || answered(&direct, "KV/Txn").await;
        let before = txns().await;
        late.open();
        audit::eventually("the late create", LATE, || async { txns().await > before }).await;
    }

    /// The number of entries in the queue.
    async fn standing(&self) -> u64 {
        self.server.admin().count(&name(NAME)).await
    }

    /// The keys of the tombstones that were set.
    async fn tombstones(&self) -> Vec<Vec<u8>> {
        let all = Some(GetOptions::new().with_prefix().with_keys_only());
        let mut answer = self.server.admin().client().await.get("case/s1/", all).await.unwrap();
        let keys = answer.take_kvs().into_iter().map(|kv| kv.key().to_vec());
        keys.filter(|key| key.split(|byte| *byte == b'/').count() == 4).collect()
    }
}

/// The lock was held and released in the meantime, and no client would ever remove this entry from the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_arrives_after_the_release_creates_nothing() {
    let two = TwoWays::start().await;
    let (guard, late) = two.detained(two.client.take(NAME, &told())).await;
    assert_eq!(two.tombstones().await.len(), 0, "it is held, and no tombstone is set");
    guard.release().await.unwrap().confirmed().unwrap();
    assert_eq!((two.standing().await, two.tombstones().await.len()), (0, 1));
    two.let_in(&late).await;
    assert_eq!(two.standing().await, 0, "an entry that had left came back");
    // The next entry with the same tombstone can still be created.
    two.client.take(NAME, &told()).await.release().await.unwrap().confirmed().unwrap();
    assert_eq!(two.tombstones().await.len(), 1);
}

/// No leave follows for an entry that only tried, or that was refused: the store has answered that it is not in the queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_arrives_after_it_was_refused_creates_nothing() {
    let options = told();
    for agrees in [true, false] {
        let two = TwoWays::start().await;
        let other = Client::new(&format!("etcd://{}/case", two.server.address()));
        let held = other.take(NAME, &options).await;
        let lock =
            if agrees { two.client.mutex(NAME) } else { two.client.locks.rwlock(NAME).unwrap().write() };
        let (tried, late) = two.detained(lock.try_acquire_with(&options)).await;
        if agrees {
            assert!(tried.unwrap().is_none());
        } else {
            assert!(matches!(tried, Err(Error::ClaimMismatch { .. })), "{tried:?}");
        }
        held.release().await.unwrap().confirmed().unwrap();
        two.let_in(&late).await;
        assert_eq!(two.standing().await, 0, "somebody stands there who was told that it does not");
    }
}

/// Without space, neither a tombstone nor anything else can be put. So the lock is free immediately, but the release is not confirmed until
/// the tombstone is set.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_in_doubt_without_space_frees_the_lock_and_is_confirmed_later() {
    let two = TwoWays::start().await;
    let (guard, late) = two.detained(two.client.take(NAME, &told())).await;
    two.server.fill().await.unwrap();
    let released = guard.release().await.unwrap();
    assert!(matches!(released, Released::Pending { .. }), "{released:?}");
    assert_eq!(two.standing().await, 0);
    two.server.make_room().await.unwrap();
    audit::eventually("a tombstone", LATE, || async { two.tombstones().await.len() == 1 }).await;
    two.let_in(&late).await;
    assert_eq!(two.standing().await, 0, "an entry that had left came back");
    two.client.assert_free(NAME).await;
}

/// The keeper repeats the leave. The other locks of the session go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_in_doubt_while_no_server_is_reached_is_repeated_and_costs_no_other_lock() {
    let two = TwoWays::start().await;
    let other = two.client.take("other", &told()).await;
    let (guard, _late) = two.detained(two.client.take(NAME, &told())).await;
    for way in &two.ways {
        way.newcomers(Newcomers::Refuse);
        way.reset(Links::All);
    }
    let released = guard.release().await.unwrap();
    assert!(matches!(released, Released::Pending { .. }), "{released:?}");
    assert_eq!(two.standing().await, 1);
    for way in &two.ways {
        way.newcomers(Newcomers::Serve);
    }
    audit::eventually("the leave", LATE, || async { two.standing().await == 0 }).await;
    assert_eq!(two.tombstones().await.len(), 1);
    assert!(other.is_held());
    other.extend().await.unwrap();
    other.release().await.unwrap().confirmed().unwrap();
}

/// An entry with a lease of its own is known to nobody before its lease is granted, so the leave finds nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_leaves_while_its_lease_is_granted_is_not_created() {
    let server = TestServer::start("case").await;
    let direct = server.address();
    let grants = async || answered(&direct, "Lease/LeaseGrant").await;
    let server = server.behind_proxy();
    let client = Client::new(&format!("etcd://{}/case?command_timeout=60s&heartbeat=1h", server.address()));
    // This connects, and gets no lease.
    client.await_queue(NAME, 0).await;
    let gate = Gate::new();
    server.proxy().order(Links::Open, Way::Replies, &Flow::Hold(gate.clone()));
    let mut entry = Entry::new(name(NAME), EntryId::new(1), Claim::mutex(), HOUR);
    entry.renew = false;
    let (backend, entering) = (Arc::clone(&client.backend), entry.clone());
    let entering = tokio::spawn(async move { backend.enter(&entering, Step::Create, WaitMode::Queue).await });
    audit::eventually("the grant", LATE, || async { grants().await == 1 }).await;
    let left = client.backend.leave(&entry, Creates::InDoubt).await.unwrap();
    assert_eq!(left, Departure::Absent);
    gate.open();
    let standing = soon("an answer", entering).await.unwrap().unwrap();
    assert!(matches!(standing, Standing::Gone), "{standing:?}");
    assert_eq!(server.admin().count(&name(NAME)).await, 0);
    audit::eventually("the end of its lease", LATE, || async { server.admin().leases().await == 0 }).await;
}

/// The other member answers that the lease exists already.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_granted_without_an_answer_is_used() {
    let two = TwoWays::start().await;
    let gate = Gate::new();
    two.ways[0].order(Links::Open, Way::Replies, &Flow::Hold(gate.clone()));
    // Another ttl needs another lease.
    let guard = two.client.take(NAME, &options()).await;
    let leases = two.server.admin().leases().await;
    assert_eq!(leases, 2, "that of the first lock, and this one");
    gate.open();
    guard.release().await.unwrap().confirmed().unwrap();
}

/// If the session continued with a deleted tombstone, a create that was sent before the tombstone was set would succeed.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_when_one_of_its_tombstones_is_deleted_by_hand() {
    let two = TwoWays::start().await;
    let lease = async || two.server.admin().keys(&name(NAME)).await[0].lease();
    let (guard, _late) = two.detained(two.client.take(NAME, &told())).await;
    let before = lease().await;
    guard.release().await.unwrap().confirmed().unwrap();
    for tombstone in two.tombstones().await {
        two.server.admin().client().await.delete(tombstone, None).await.unwrap();
    }
    let guard = two.client.take(NAME, &told()).await;
    assert_ne!(lease().await, before);
    assert!(guard.is_held());
    guard.release().await.unwrap().confirmed().unwrap();
}
