//! Servers that answer but cannot keep locks: `connect` says so, and what to use instead.

mod common;

use common::*;
use lock_conformance::Port;
use lock_core::{BackendError, BackendErrorKind as Kind, Keeper};
use lock_redis::{ConnectError, Redis};
use lock_test_servers::RedisServer;

async fn refusal(url: &str) -> BackendError {
    match Redis::connect(url.parse().unwrap(), &Keeper::start().unwrap()).await {
        Err(ConnectError::Store(error)) => error,
        other => panic!("{url}: {other:?}"),
    }
}

fn assert_says(error: &BackendError, what: &str, instead: &str) {
    let Kind::WrongServer(said) = error.kind() else { panic!("{error:?}") };
    assert!(said.contains(what) && said.contains(instead), "{said}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused_at_once() {
    let bus = Port::reserve();
    let server = Server::with(&["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()]);
    assert_says(&refusal(&server.url()).await, "a node of a cluster", "stands alone");
}

/// The server refuses the database before the client asks what it is.
#[tokio::test]
async fn a_node_of_a_cluster_is_refused_for_any_database() {
    let bus = Port::reserve();
    let server = Server::with(&["--cluster-enabled", "yes", "--cluster-port", &bus.to_string()]);
    let error = refusal(&format!("{}/1", server.url())).await;
    assert_says(&error, "a node of a cluster", "stands alone");
    assert!(error.to_string().contains("SELECT is not allowed in cluster mode"), "{error}");
}

#[tokio::test]
async fn a_replica_is_refused_at_once() {
    let (master, replica) = (Server::start(), Server::start());
    replica.command::<()>(&format!("REPLICAOF 127.0.0.1 {}", master.url().rsplit(':').next().unwrap()));
    assert_says(&refusal(&replica.url()).await, "a replica", "its master");
    replica.command::<()>("REPLICAOF NO ONE");
    assert!(Redis::connect(replica.url().parse().unwrap(), &Keeper::start().unwrap()).await.is_ok());
}

/// The error of `connect` for a sentinel, once the sentinel listens.
async fn refusal_of_a_sentinel(database: &str) -> BackendError {
    let sentinel = RedisServer::sentinel();
    soon(async {
        loop {
            let error = refusal(&format!("{}{database}", sentinel.url())).await;
            if *error.kind() != Kind::Unreachable {
                return error;
            }
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_sentinel_is_refused_at_once() {
    assert_says(&refusal_of_a_sentinel("").await, "a sentinel", "the master that it names");
}

/// A sentinel does not know the command that selects a database, so the client asks what the server is.
#[tokio::test]
async fn a_sentinel_is_refused_for_any_database() {
    let error = refusal_of_a_sentinel("/3").await;
    assert_says(&error, "a sentinel", "the master that it names");
    assert!(error.to_string().contains("refused the choice of the database"), "{error}");
}
