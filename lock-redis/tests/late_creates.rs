//! Plain commands create an entry whenever they arrive, so a leave waits until they can no longer arrive (rule 6 of ADR 28).

mod common;

use std::net::SocketAddr;

use common::*;
use futures_util::FutureExt;
use lock_conformance::{Flow, Gate, Links, Proxy, Way};
use lock_core::{Backend, BackendErrorKind as Kind, Creates, Departure, Entry, Standing, Step, WaitMode};

/// A client that reaches the server through a proxy.
async fn far(server: &Server, parameters: &str) -> (Client, Proxy) {
    let at: SocketAddr = server.url().trim_start_matches("redis://").parse().unwrap();
    let proxy = Proxy::start(at, |sent| sent.windows(9).any(|word| word == b"SUBSCRIBE"));
    let keeper = lock_core::Keeper::start().unwrap();
    let url = format!("redis://{}?prefix={parameters}", proxy.address());
    let redis = lock_redis::Redis::new(url.parse().unwrap(), &keeper).unwrap();
    let client = Client { redis, keeper };
    uses_plain_commands(server, &client).await;
    (client, proxy)
}

/// Sends a create that gets stuck on its way, until the gate opens. Its connection is given up.
async fn send_late(client: &Client, proxy: &Proxy, late: &Entry) -> Gate {
    let gate = Gate::new();
    proxy.order(Links::OpenCommands, Way::Requests, &Flow::Hold(gate.clone()));
    let error = client.enter(late, Step::Create, WaitMode::Try).await.unwrap_err();
    assert_eq!((error.kind(), error.is_unsent()), (&Kind::TimedOut, false), "{error}");
    gate
}

/// Rule 6 of ADR 28.
async fn does_not_come_back(server: &Server) {
    let (client, proxy) = far(server, "&command_timeout=300ms").await;
    let late = mutex("job");
    let gate = send_late(&client, &proxy, &late).await;
    soon(async { while client.redis.leave(&late, Creates::InDoubt).await.is_err() {} }).await;
    assert!(server.calls("client|kill") >= 1);
    assert_eq!(
        server.command::<u64>("DBSIZE"),
        server.keys().iter().filter(|key| is_counter(key)).count() as u64
    );
    let sets = server.calls("set");
    gate.open();
    soon(async {
        while !proxy.is_drained() {
            tokio::time::sleep(ms(5)).await;
        }
    })
    .await;
    tokio::time::sleep(ms(50)).await;
    assert_eq!((server.calls("set"), value(server, "job")), (sets, String::new()), "the create arrived");
}

#[tokio::test]
async fn a_create_on_a_connection_that_was_given_up_never_arrives_after_its_leave() {
    does_not_come_back(&Server::start()).await;
}

/// Other threads of the server read what clients send.
#[tokio::test]
async fn so_it_is_where_other_threads_read() {
    for arguments in [&["--io-threads", "4", "--io-threads-do-reads", "yes"][..], &["--io-threads", "4"]] {
        does_not_come_back(&Server::with(arguments)).await;
    }
}

/// A create that is repeated after its connection was given up holds the lock, and leaves for both.
#[tokio::test]
async fn a_create_that_was_repeated_does_not_arrive_after_the_release() {
    let server = Server::start();
    let (client, proxy) = far(&server, "&command_timeout=300ms").await;
    let late = mutex("job");
    let gate = send_late(&client, &proxy, &late).await;
    client.hold(&late).await;
    assert_eq!(client.redis.leave(&late, Creates::InDoubt).await.unwrap(), Departure::Left);
    gate.open();
    tokio::time::sleep(ms(50)).await;
    assert_eq!(value(&server, "job"), "");
}

/// After a restart, connections have the numbers of others.
#[tokio::test]
async fn after_a_restart_of_the_server_no_connection_is_ended_by_mistake() {
    let server = Server::start();
    let (client, proxy) = far(&server, "&command_timeout=300ms").await;
    let late = mutex("job");
    let _gate = send_late(&client, &proxy, &late).await;
    server.restart();
    soon(async { while client.redis.leave(&late, Creates::InDoubt).await.is_err() {} }).await;
    // One for each connection, of a number that nobody has.
    let (kills, asked) = (server.calls("client|kill"), server.calls("client|id"));
    assert_eq!(kills, asked, "a connection was ended");
}

/// The caller is dropped while its create is on its way: the leave follows on the same connection, and needs no tombstone.
#[tokio::test]
async fn a_create_that_is_given_up_is_followed_by_its_leave_on_the_same_connection() {
    let server = Server::start();
    let client = plain(&server, "?command_timeout=20s&connect_timeout=20s").await;
    for turns in 0..100 {
        let late = mutex("job");
        let mut asking = Box::pin(client.enter(&late, Step::Create, WaitMode::Try));
        assert!((&mut asking).now_or_never().is_none());
        // Before it is written, when it is, or when the answer may have come.
        for _ in 0..turns % 4 {
            tokio::task::yield_now().await;
        }
        drop(asking);
        client.redis.leave(&late, Creates::InDoubt).await.unwrap();
        assert!(server.keys().iter().all(|key| is_counter(key)), "{:?}", server.keys());
        let standing = client.enter(&late, Step::Create, WaitMode::Try).await.unwrap();
        assert!(matches!(standing, Standing::Gone), "{standing:?}");
    }
    assert!(server.calls("multi") > 0);
    assert_eq!(server.calls("client|kill"), 0);
}
