//! The example on a real server. Fails where there is none: see `scripts/setup`.

use std::{
    env,
    process::Command,
    time::{Duration, Instant},
};

use lock_conformance::{Port, ServerProcess, ServerProgram};

mod built;

#[test]
fn a_write_without_the_lock_is_refused_by_etcd() {
    let server = Server::start();
    let started = Instant::now();
    let output = loop {
        let output = Command::new(built::example("etcd_fenced_write")).arg(&server.url).output();
        let output = output.expect("the example can be started");
        // The server may not listen yet.
        if output.status.success() || started.elapsed() > Duration::from_secs(20) {
            break output;
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}{complained}", output.status);
    assert!(said.contains("refused, because the lock is not held any more"), "{said}");
    assert!(said.ends_with("balance: 50\n"), "{said}");
}

#[test]
fn a_process_that_ends_without_a_close_leaves_no_lock() {
    let server = Server::start();
    built::assert_that_ends_leave_no_lock(&server.url);
}

/// A server of this test alone, or the one whose URL is in `DISTLOCK_TEST_ETCD_URL`.
struct Server {
    url: String,
    _process: Option<(ServerProcess, tempfile::TempDir, [Port; 2])>,
}

impl Server {
    fn start() -> Self {
        if let Some(url) = env::var("DISTLOCK_TEST_ETCD_URL").ok().filter(|url| !url.is_empty()) {
            return Self { url, _process: None };
        }
        let [client, peer] = [(); 2].map(|()| Port::reserve());
        let directory = tempfile::tempdir().unwrap();
        let arguments = [
            format!("--data-dir={}", directory.path().join("data").display()),
            format!("--listen-client-urls=http://127.0.0.1:{client}"),
            format!("--advertise-client-urls=http://127.0.0.1:{client}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            "--name=example".to_owned(),
            format!("--initial-cluster=example=http://127.0.0.1:{peer}"),
        ];
        let log = directory.path().join("log");
        let process = ServerProcess::start(&ServerProgram::local([binary()]), &arguments, &log);
        Self {
            url: format!("etcd://127.0.0.1:{client}"),
            _process: Some((process, directory, [client, peer])),
        }
    }
}

/// The one that `scripts/setup` got.
fn binary() -> String {
    let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/etcd/setup");
    let printed = Command::new(setup).arg("--print").output().expect("scripts/etcd/setup can be run");
    String::from_utf8(printed.stdout).unwrap().lines().next().unwrap_or_default().to_owned()
}
