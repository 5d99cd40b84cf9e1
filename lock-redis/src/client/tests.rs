//! These tests run against real servers.

mod failures;
mod hostile;
mod runtimes;
mod secrets;
mod tls;
mod unanswered_creates;

use std::time::{Duration, Instant};

use futures_executor::block_on;
use futures_util::FutureExt;
use lock_core::{BackendError, BackendErrorKind as Kind};
use redis::Value;

use super::Client;
use crate::testing::{LATE, Server, client, eventually, runtime, words};

/// One command, from a thread without a runtime.
fn ask(client: &Client, command: &str) -> Result<Value, BackendError> {
    block_on(client.command(&words(command)))
}

/// The error of a command. Asserts that it came in time.
fn refused(client: &Client, command: &str) -> BackendError {
    let started = Instant::now();
    let error = ask(client, command).unwrap_err();
    let took = started.elapsed();
    assert!(took < LATE, "{error} after {took:?}");
    error
}

#[test]
fn a_script_is_run_by_digest_and_by_source_where_the_server_forgot_it() {
    let server = Server::start();
    let client = client(&server.url());
    let script = crate::scripts::Script::new("do return {KEYS[1], ARGV[1], ARGV[2]} end\n", "");
    let run =
        || block_on(client.call(&script, &[b"k\xff".to_vec()], &[b"a".to_vec(), b"".to_vec()])).unwrap();
    let expected =
        Value::Array([&b"k\xff"[..], b"a", b""].map(|part| Value::BulkString(part.to_vec())).into());
    assert_eq!(run(), expected);
    assert_eq!(run(), expected);
    server.run("SCRIPT FLUSH");
    assert_eq!(run(), expected);
    let Value::BulkString(stats) = server.run("INFO commandstats") else { panic!() };
    let stats = String::from_utf8(stats).unwrap();
    let calls = |verb: &str| stats.lines().any(|line| line.starts_with(verb));
    assert!(calls("cmdstat_eval:calls=2,") && calls("cmdstat_evalsha:calls=3,"), "{stats}");
}

#[test]
fn the_database_the_prefix_and_the_client_name_are_the_configured_ones() {
    let server = Server::start();
    let client = client(&format!("{}/3?client_name=web-1", server.url()));
    ask(&client, "SET here 1").unwrap();
    let clients = server.clients();
    assert!(
        clients.iter().any(|line| line.contains(" name=web-1 ") && line.contains(" db=3 ")),
        "{clients:?}"
    );
    assert_eq!(server.run("DBSIZE"), Value::Int(0));
}

#[test]
fn an_acl_user_does_what_it_may_and_no_more() {
    let server = Server::start();
    server.run("ACL SETUSER app on >pw ~lock:* &* -@all +set");
    let client = client(&format!("redis://app:pw@127.0.0.1:{}", server.port()));
    ask(&client, "SET lock:1 x").unwrap();
    for denied in ["GET lock:1", "SET other x"] {
        let error = ask(&client, denied).unwrap_err();
        assert_eq!((error.kind(), error.is_unsent()), (&Kind::Denied, false), "{error}");
    }
}

#[test]
fn a_password_is_read_from_the_file_that_the_url_names() {
    let server = Server::start();
    server.run("ACL SETUSER app on >p%w ~* &* +@all");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "p%w\n").unwrap();
    let url = format!("redis://app@127.0.0.1:{}?password_file={}", server.port(), file.path().display());
    ask(&client(&url), "PING").unwrap();
    std::fs::write(file.path(), "p%x\n").unwrap();
    let error = refused(&client(&url), "PING");
    assert_eq!(error.kind(), &Kind::Denied, "{error}");
}

#[test]
fn nothing_is_left_when_the_last_clone_is_dropped() {
    let server = Server::start();
    let before = server.clients().len();
    let runtime = runtime();
    let client = client(&server.url());
    ask(&client, "PING").unwrap();
    runtime.block_on(client.command(&words("PING"))).unwrap();
    assert_eq!(server.clients().len(), before + 2);
    let clone = client.clone();
    drop(client);
    ask(&clone, "PING").unwrap();
    drop(clone);
    // The runtime has to be driven to drop its task.
    runtime.block_on(async { eventually_async(|| server.clients().len() == before).await });
    assert_eq!(runtime.metrics().num_alive_tasks(), 0);
}

async fn eventually_async(mut check: impl FnMut() -> bool) {
    let started = Instant::now();
    while !check() {
        assert!(started.elapsed() < LATE, "not within {LATE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn a_command_that_is_given_up_does_not_harm_the_others() {
    let server = Server::start();
    let runtime = runtime();
    let client = client(&server.url());
    runtime.block_on(async {
        for i in 0..200 {
            let (given_up, kept) = (words(&format!("ECHO no-{i}")), words(&format!("ECHO yes-{i}")));
            let mut lost = Box::pin(client.command(&given_up));
            assert!((&mut lost).now_or_never().is_none());
            let kept = client.command(&kept);
            if i % 2 == 0 {
                tokio::task::yield_now().await;
            }
            drop(lost);
            assert_eq!(kept.await.unwrap(), Value::BulkString(format!("yes-{i}").into_bytes()));
        }
    });
    assert_eq!(server.clients().len(), 1);
}
