//! The example on a real server. The test fails if there is none: see `scripts/setup`.

use std::process::Command;

use lock_test_servers::{EtcdServer, block_on, etcd};

mod built;

#[test]
fn a_write_without_the_lock_is_refused_by_etcd() {
    let server = Server::start();
    let output = Command::new(built::example("etcd_fenced_write")).arg(&server.url).output();
    let output = output.expect("the example can be started");
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
    _process: Option<EtcdServer>,
}

impl Server {
    fn start() -> Self {
        if let Some(url) = etcd::url() {
            return Self { url, _process: None };
        }
        let process = block_on(EtcdServer::start(&[]));
        Self { url: format!("etcd://{}", process.address()), _process: Some(process) }
    }
}
