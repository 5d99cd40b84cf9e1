//! The example on a real server. The test fails if there is none: see `scripts/setup`.

use lock_test_servers::{EtcdServer, block_on, etcd};

mod built;
mod fenced_write;

#[test]
fn a_write_without_the_lock_is_refused_by_etcd() {
    let server = Server::start();
    fenced_write::assert_refused_without_the_lock("etcd_fenced_write", &server.url);
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
