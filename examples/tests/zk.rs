//! The example on a real server. The test fails if there is none: see `scripts/setup`.

use std::time::Duration;

use lock_test_servers::{ZooKeeperServer, block_on, java, zookeeper};

mod built;
mod fenced_write;

#[test]
fn a_write_without_the_lock_is_refused_by_zookeeper() {
    let server = Server::start();
    fenced_write::assert_refused_without_the_lock("zk_fenced_write", &server.url);
}

#[test]
fn a_process_that_ends_without_a_close_leaves_no_lock() {
    let server = Server::start();
    built::assert_that_ends_leave_no_lock(&server.url);
}

/// A server of this test alone, or the one whose URL is in `DISTLOCK_TEST_ZK_URL`.
struct Server {
    url: String,
    _process: Option<ZooKeeperServer>,
}

impl Server {
    fn start() -> Self {
        if let Some(url) = zookeeper::url() {
            return Self { url, _process: None };
        }
        let java = [&java::SHORT_RUN[..], &["-Dzookeeper.forceSync=no"]].concat();
        let process = block_on(ZooKeeperServer::start(Duration::from_millis(200), &[], &java));
        Self { url: format!("zk://{}?tick=200ms", process.address()), _process: Some(process) }
    }
}
