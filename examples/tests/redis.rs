//! The example on a real server, from several processes. Fails where `redis-server` is missing: see `scripts/setup`.

use std::{
    env,
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
};

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
fn a_server_that_is_not_there_is_told_and_no_password_with_it() {
    // The port is taken while nobody answers on it in Redis's tongue.
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("its number");
    let url = format!("redis://user:hunter2@{nobody}/0?connect_timeout=500ms");
    let output = Command::new(built::example("shared_counter")).args([&url, "1", "1"]).output();
    let output = output.expect("the example can be started");
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(!complained.contains("hunter2"), "{complained}");
}

/// A server of this test alone, or the one whose URL is in `DISTLOCK_TEST_REDIS_URL`.
struct Server {
    url: String,
    process: Option<Child>,
}

impl Server {
    fn start() -> Self {
        match env::var("DISTLOCK_TEST_REDIS_URL") {
            Ok(url) if !url.is_empty() => Self { url, process: None },
            // A port that was free a moment ago may be taken by the time that the server asks for it.
            _ => (0..10).find_map(|_| Self::start_on_a_free_port()).expect("a server on one of ten ports"),
        }
    }

    fn start_on_a_free_port() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(env::temp_dir());
        let mut process = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server can be started; `scripts/setup` installs it");
        let log = BufReader::new(process.stdout.take().expect("it is piped"));
        let ready =
            log.lines().map_while(Result::ok).any(|line| line.contains("Ready to accept connections"));
        let server = Self { url: format!("redis://127.0.0.1:{port}"), process: Some(process) };
        ready.then_some(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It is a child of ours: nobody else can have ended it, and an error leaves nothing to do.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
