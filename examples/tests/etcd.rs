//! The example on a real server. Fails where there is none: see `scripts/setup`.

use std::{
    env,
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

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

/// A server of this test alone, or the one whose URL is in `DISTLOCK_TEST_ETCD_URL`.
struct Server {
    url: String,
    process: Option<(Child, tempfile::TempDir)>,
}

impl Server {
    fn start() -> Self {
        if let Some(url) = env::var("DISTLOCK_TEST_ETCD_URL").ok().filter(|url| !url.is_empty()) {
            return Self { url, process: None };
        }
        let [client, peer] =
            [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").and_then(|bound| bound.local_addr()).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let process = Command::new(binary())
            .arg(format!("--data-dir={}", directory.path().display()))
            .args([
                format!("--listen-client-urls=http://{client}"),
                format!("--advertise-client-urls=http://{client}"),
            ])
            .args([
                format!("--listen-peer-urls=http://{peer}"),
                format!("--initial-advertise-peer-urls=http://{peer}"),
            ])
            .args(["--name=example".to_owned(), format!("--initial-cluster=example=http://{peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is no etcd server: run scripts/setup");
        Self { url: format!("etcd://{client}"), process: Some((process, directory)) }
    }
}

/// The one that `scripts/setup` got.
fn binary() -> String {
    let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/etcd/setup");
    let printed = Command::new(setup).arg("--print").output().expect("scripts/etcd/setup can be run");
    String::from_utf8(printed.stdout).unwrap().lines().next().unwrap_or_default().to_owned()
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some((process, _)) = &mut self.process {
            // It may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
