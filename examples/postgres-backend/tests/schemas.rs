//! Clients that find their schema missing: one creates it, and only clients of the same schema wait.

#[allow(dead_code, reason = "shared with the suite")]
mod server;

use std::sync::Arc;

use lock_conformance::audit::{SLACK, eventually, soon};
use lock_core::{Backend, DistributedLock, Keeper, Locks, SystemEntropy};
use postgres_backend::Postgres;

use self::server::own::OwnServer;

/// How often this is tried: on a busy machine, the waiting client may give up before the other one is done.
const ROUNDS: u32 = 20;

/// One client waits for a transaction that creates the same schema and does not end, gives up, and tries again. The other client creates
/// its own schema, and gets its lock, while the first one still waits.
#[tokio::test]
async fn creating_a_schema_does_not_wait_for_another_one() {
    let server = OwnServer::start().await;
    let held_up = locks(&server, "held_up");
    let never_done = server.admin("BEGIN; CREATE SCHEMA held_up; SELECT pg_sleep(3600)");
    let asking = async {
        let made = async || {
            server.admin("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").await != [""; 0]
        };
        eventually("its schema is being made", SLACK, made).await;
        loop {
            let granted = held_up.mutex("job").unwrap().acquire().await;
            assert!(granted.is_err(), "its schema cannot be there: {granted:?}");
        }
    };
    let others = async {
        for round in 0..ROUNDS {
            eventually("the one waits", SLACK, async || waiting(&server).await.is_some()).await;
            let before = waiting(&server).await;
            let free = locks(&server, &format!("free_{round}")).mutex("job").unwrap();
            let granted = soon("a lock in another schema", free.acquire()).await;
            granted.unwrap().release().await.unwrap();
            if before.is_some() && before == waiting(&server).await {
                return;
            }
        }
        panic!("in {ROUNDS} rounds no client created its schema while another one was waiting");
    };
    tokio::select! {
        said = never_done => panic!("it has ended: {said:?}"),
        () = asking => {}
        () = others => {}
    }
}

/// Drops an empty schema that a client has just created, and is about to fill.
#[tokio::test]
async fn a_schema_that_is_dropped_while_it_is_made_is_made_again() {
    let server = OwnServer::start().await;
    server.admin("CREATE SCHEMA dropped AUTHORIZATION clients").await;
    let drop_it = server.admin(
        "BEGIN; DROP SCHEMA dropped;
         DO $$ BEGIN
             WHILE NOT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted) LOOP PERFORM pg_sleep(0.01); END LOOP;
         END $$; COMMIT",
    );
    let asking = async {
        let begun = async || {
            server.admin("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'").await != [""; 0]
        };
        eventually("it is being dropped", SLACK, begun).await;
        locks(&server, "dropped").mutex("job").unwrap().acquire().await
    };
    let (_, granted) = soon("a lock", Box::pin(async { tokio::join!(drop_it, asking) })).await;
    granted.unwrap().release().await.unwrap();
}

/// The connection of the first client that waits.
async fn waiting(server: &OwnServer) -> Option<String> {
    let connections =
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'held_up' AND wait_event_type = 'Lock'";
    server.admin(connections).await.pop()
}

fn locks(server: &OwnServer, schema: &str) -> Locks {
    let keeper = Keeper::start().expect("a keeper's thread can be started");
    let url = format!("postgres://clients@127.0.0.1:{}/postgres?application_name={schema}", server.port());
    let client: Postgres = server::client(url.parse().unwrap(), &keeper);
    let client: Arc<dyn Backend> = Arc::new(client);
    Locks::with(client, keeper, Arc::new(SystemEntropy))
}
