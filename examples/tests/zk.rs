//! The example on a real server. Fails where there is none: see `scripts/setup`.

use std::{
    env, fs,
    process::Command,
    time::{Duration, Instant},
};

use lock_conformance::{Port, ServerProcess, ServerProgram};

mod built;

#[test]
fn a_write_without_the_lock_is_refused_by_zookeeper() {
    let server = Server::start();
    let started = Instant::now();
    let output = loop {
        let output = Command::new(built::example("zk_fenced_write")).arg(&server.url).output();
        let output = output.expect("the example can be started");
        // The server may not listen yet.
        if output.status.success() || started.elapsed() > Duration::from_secs(30) {
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

/// A server of this test alone, or the one whose URL is in `DISTLOCK_TEST_ZK_URL`.
struct Server {
    url: String,
    _process: Option<(ServerProcess, tempfile::TempDir, Port)>,
}

impl Server {
    fn start() -> Self {
        if let Some(url) = env::var("DISTLOCK_TEST_ZK_URL").ok().filter(|url| !url.is_empty()) {
            return Self { url, _process: None };
        }
        let port = Port::reserve();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("zoo.cfg");
        let settings = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=200\nadmin.enableServer=false\n",
            directory.path().join("data").display()
        );
        fs::write(&file, settings).unwrap();
        let main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
        let quick = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"];
        let server = ["-cp", &classes(), main, &file.display().to_string()].map(str::to_owned);
        let arguments: Vec<_> = quick.map(str::to_owned).into_iter().chain(server).collect();
        let log = directory.path().join("log");
        let process = ServerProcess::start(&ServerProgram::local(["java"]), &arguments, &log);
        Self { url: format!("zk://127.0.0.1:{port}?tick=200ms"), _process: Some((process, directory, port)) }
    }
}

/// The class path of the one that `scripts/setup` got.
fn classes() -> String {
    let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/zk/setup");
    let printed = Command::new(setup).arg("--print").output().expect("scripts/zk/setup can be run");
    String::from_utf8(printed.stdout).unwrap().lines().next().unwrap_or_default().to_owned()
}
