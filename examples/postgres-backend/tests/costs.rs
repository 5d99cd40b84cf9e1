//! The cost of a verb does not grow with the number of earlier verbs, although deleted rows stay in their pages until the server vacuums, a
//! minute later.
//!
//! The cost is counted in pages that the server reads, which does not depend on speed.

#![expect(clippy::future_not_send, reason = "a test runs on one thread")]

#[allow(dead_code, reason = "shared with the suite")]
mod server;

use std::time::{Duration, Instant};

use lock_core::{
    Backend, Claim, Creates, Departure, Entry, EntryId, Keeper, LockName, Standing, Step, WaitMode,
};
use postgres_backend::Postgres;

use self::server::own::OwnServer;

/// How many verbs are counted together, and how many run between two counts.
const COUNTED: u128 = 100;
const BETWEEN: u128 = 3_000;

#[tokio::test]
async fn an_acquisition_and_its_release_cost_no_more_behind_thousands_of_others() {
    let server = untidy().await;
    let taken_and_left = async |client: &Postgres, i| {
        let entry = entry(i);
        let standing = client.enter(&entry, Step::Create, WaitMode::Queue).await.unwrap();
        assert!(matches!(standing, Standing::Admitted { .. }), "{standing:?}");
        assert_eq!(client.leave(&entry, Creates::Answered).await.unwrap(), Departure::Left);
    };
    assert_costs_stay(&server, taken_and_left).await;
}

/// Each leave is that of a client that gave up while its create was in doubt: the tombstone is kept for a minute.
#[tokio::test]
async fn a_departure_in_doubt_costs_no_more_behind_thousands_of_others() {
    let server = untidy().await;
    let left_in_doubt = async |client: &Postgres, i| {
        assert_eq!(client.leave(&entry(i), Creates::InDoubt).await.unwrap(), Departure::Absent);
    };
    assert_costs_stay(&server, left_in_doubt).await;
}

/// A server without autovacuum.
async fn untidy() -> OwnServer {
    let server = OwnServer::start().await;
    server.admin("ALTER SYSTEM SET autovacuum = off").await;
    server.admin("SELECT pg_reload_conf()").await;
    server
}

fn entry(i: u128) -> Entry {
    let name = LockName::new("job").unwrap();
    Entry::new(name, EntryId::new(i), Claim::mutex(), Duration::from_secs(30))
}

async fn assert_costs_stay(server: &OwnServer, verbs: impl AsyncFn(&Postgres, u128)) {
    let last = COUNTED + BETWEEN;
    let first = pages(server, &verbs, 0..COUNTED).await;
    pages(server, &verbs, COUNTED..last).await;
    let then = pages(server, &verbs, last..last + COUNTED).await;
    assert!(then <= first + first / 2, "{COUNTED} looked at {first} pages at first, and at {then} then");
}

/// How many pages of tables and indexes the server has read for one client. It reports them when the client is gone.
async fn pages(server: &OwnServer, verbs: &impl AsyncFn(&Postgres, u128), of: std::ops::Range<u128>) -> u64 {
    let before = counted(server).await;
    let keeper = Keeper::start().expect("a keeper's thread can be started");
    let url = format!("postgres://clients@127.0.0.1:{}/postgres?application_name=costs", server.port());
    let client = server::client(url.parse().unwrap(), &keeper);
    for i in of {
        verbs(&client, i).await;
    }
    drop(client);
    let end = Instant::now() + Duration::from_secs(10);
    while server.admin("SELECT 1 FROM pg_stat_activity WHERE application_name = 'costs'").await != [""; 0] {
        assert!(Instant::now() < end, "a client that is gone is still connected");
    }
    counted(server).await - before
}

async fn counted(server: &OwnServer) -> u64 {
    let blocks = "heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit";
    let count = format!("SELECT coalesce(sum({blocks}), 0) FROM pg_statio_user_tables");
    server.admin(&count).await[0].parse().expect("a count is a number")
}
