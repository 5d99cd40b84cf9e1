//! Tests whether a cluster revokes leases that are alive when a leader that was paused resumes. It uses only the etcd client: no lock,
//! and no code of this library, takes part. docs/backends/etcd.md says what is known.

mod server;

use std::{
    collections::HashMap,
    env,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use etcd_client::{Client, EventType, PutOptions, WatchOptions, WatchStream};
use server::Cluster;
use tokio::task::JoinSet;

/// In seconds. A leader that was paused for less than the rest of its leases finds none that has ended.
const TTL: i64 = 3;
const LEASE: Duration = Duration::from_secs(TTL.unsigned_abs());
const STANDSTILL: Duration = Duration::from_secs(5);

const LEASES: usize = 20;

/// The time between two keep-alives of a lease.
const EVERY: Duration = Duration::from_millis(300);

/// When the last answered keep-alive of each key's lease was sent.
type Proofs = Arc<Mutex<HashMap<String, Instant>>>;

/// The versions that are known to do it: from the first one on, and before the second one.
const KNOWN: [([u32; 3], [u32; 3]); 4] =
    [([0, 0, 0], [3, 4, 31]), ([3, 5, 0], [3, 5, 22]), ([3, 6, 9], [3, 6, 10]), ([3, 7, 3], [3, 7, 4])];

/// `ROUNDS` sets the number of rounds. The bug appears in some of them, so none in only a few rounds shows little.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: it is about etcd itself, and takes minutes"]
async fn a_lease_with_answered_keep_alives_outlives_a_leader_that_stood_still() {
    let rounds: u32 = env::var("ROUNDS").map_or(14, |rounds| rounds.parse().expect("ROUNDS is a number"));
    let cluster = Cluster::start("case").await;
    let version = cluster.admin(0).status().await.expect("the server answers").version().to_owned();
    let mut seen = 0;
    for round in 1..=rounds {
        let revoked = revoked_in_a_round(&cluster).await;
        seen += u32::from(!revoked.is_empty());
        println!(
            "etcd {version}, round {round}: {} of {LEASES} revoked, {:?}",
            revoked.len(),
            revoked.first()
        );
    }
    println!("etcd {version}: leases that were alive were revoked in {seen} of {rounds} rounds");
    let known = KNOWN.iter().any(|(first, fixed)| (*first..*fixed).contains(&numbers(&version)));
    assert!(
        seen == 0 || known,
        "etcd {version} is not known to revoke leases that are alive: put it into docs/backends/etcd.md, and into the list here"
    );
}

/// Pauses the leader while another one is elected, and resumes it. Returns the keys that were deleted while their leases had time left.
async fn revoked_in_a_round(cluster: &Cluster) -> Vec<String> {
    let leader = cluster.leader().await;
    // Through a member that is not the leader, and is never paused.
    let addresses = cluster.addresses((leader + 1) % 3);
    let address = addresses.split(',').next().expect("a cluster has members");
    let mut client = Client::connect([address], None).await.expect("the server lets us in");
    let (proofs, revoked) = (Proofs::default(), Arc::new(Mutex::new(Vec::new())));
    let mut tasks = JoinSet::new();
    let events = client.watch("alive/", Some(WatchOptions::new().with_prefix())).await;
    let events = events.expect("the server watches");
    tasks.spawn(hear(events, Arc::clone(&proofs), Arc::clone(&revoked)));
    for _ in 0..LEASES {
        let lease = client.lease_grant(TTL, None).await.expect("the server grants leases").id();
        let key = format!("alive/{lease:x}");
        let options = PutOptions::new().with_lease(lease);
        client.put(key.clone(), "", Some(options)).await.expect("the server writes");
        tasks.spawn(keep_alive(client.clone(), lease, key, Arc::clone(&proofs)));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.pause(leader);
    let next = cluster.next_leader(leader);
    tokio::join!(next, tokio::time::sleep(STANDSTILL));
    cluster.resume(leader);
    tokio::time::sleep(LEASE).await;
    tasks.shutdown().await;
    revoked.lock().unwrap().clone()
}

/// Sends one keep-alive after the other.
async fn keep_alive(client: Client, lease: i64, key: String, proofs: Proofs) {
    loop {
        let sent = Instant::now();
        let mut leases = client.lease_client();
        // While there is no leader, no member answers.
        if let Ok(Ok(_)) = tokio::time::timeout(LEASE / 3, leases.keep_alive(lease)).await {
            proofs.lock().unwrap().insert(key.clone(), sent);
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Records keys that are deleted too early. A lease lives at least for its ttl from the sending of its last answered keep-alive. If the
/// event of the delete comes late, the lease seems older than it was.
async fn hear(mut events: WatchStream, proofs: Proofs, revoked: Arc<Mutex<Vec<String>>>) {
    while let Ok(Some(response)) = events.message().await {
        let now = Instant::now();
        for event in response.events().iter().filter(|event| event.event_type() == EventType::Delete) {
            let Some(key) = event.kv().and_then(|kv| kv.key_str().ok()) else { continue };
            let Some(proved) = proofs.lock().unwrap().get(key).copied() else { continue };
            let left = LEASE.saturating_sub(now.saturating_duration_since(proved));
            if !left.is_zero() {
                revoked.lock().unwrap().push(format!("{key} with {left:?} left"));
            }
        }
    }
}

/// `3.7.3` as numbers.
fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}
