//! The examples on a real server, from several processes. The tests fail if `redis-server` is missing: see `scripts/setup`.

use std::process::Command;

use lock_conformance::Port;
use lock_test_servers::{RedisServer, block_on, redis};

mod built;

#[test]
fn several_processes_lose_no_count_under_the_lock() {
    let server = Server::start();
    let output = Command::new(built::example("shared_counter")).args([&server.url, "4", "25"]).output();
    let output = output.expect("the example can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}{complained}", output.status);
    assert!(said.contains("with the lock: 100 of 100 counted"), "{said}");
}

#[test]
fn the_examples_that_take_a_store_run_on_a_server() {
    let server = Server::start();
    for example in ["scheduled_task", "init_once", "unique_ids", "semaphore", "cache_fill", "fenced_write"] {
        let output = Command::new(built::example(example)).arg(&server.url).output();
        let output = output.expect("the example can be started");
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{example}: {}\n{complained}", output.status);
    }
}

#[test]
fn a_process_that_ends_without_a_close_leaves_no_lock() {
    let server = Server::start();
    built::assert_that_ends_leave_no_lock(&server.url);
}

#[test]
fn a_server_that_is_not_there_is_told_and_no_password_with_it() {
    // While this port is reserved, no other process gets it, and no server listens on it.
    let port = Port::reserve();
    let url = format!("redis://user:hunter2@127.0.0.1:{port}/0?connect_timeout=500ms");
    let output = Command::new(built::example("shared_counter")).args([&url, "1", "1"]).output();
    let output = output.expect("the example can be started");
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(!complained.contains("hunter2"), "{complained}");
}

/// A server of this test alone, or the one whose URL is in `DISTLOCK_TEST_REDIS_URL`.
struct Server {
    url: String,
    _process: Option<RedisServer>,
}

impl Server {
    fn start() -> Self {
        if let Some(url) = redis::url() {
            return Self { url, _process: None };
        }
        let process = block_on(RedisServer::start(&[]));
        Self { url: process.url(), _process: Some(process) }
    }
}
