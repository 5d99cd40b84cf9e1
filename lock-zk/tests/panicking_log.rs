//! A log subscriber that panics at every line of this library, those of the backend too, makes no client lose a lock.

#[path = "../../lock-core/tests/support/panicking_log.rs"]
mod panicking_log;
mod server;

use std::sync::Arc;

use lock_core::{Keeper, Locks, SystemEntropy};
use lock_zk::{ZkConfig, ZooKeeper};
use tokio::runtime::Runtime;

use self::{panicking_log::PanickingLog, server::TestServer};

/// The targets of the backend's log lines begin with this.
const BACKEND: &str = "lock_zk";

/// The only test of this program, because a log subscriber serves a whole process. No connection is broken: the client crate warns of that
/// in its own tasks, where this library cannot isolate a panic.
#[test]
fn a_log_subscriber_that_panics_costs_nobody_a_lock() {
    let log = PanickingLog::install();
    let (runtime, keeper) = (Runtime::new().unwrap(), Keeper::start().unwrap());
    let server = runtime.block_on(TestServer::own());
    let config = ZkConfig::from_url(&server.url()).unwrap();
    let zookeeper = ZooKeeper::new(config, &keeper).unwrap();
    let locks = Locks::with(Arc::new(zookeeper), keeper, Arc::new(SystemEntropy));
    log.costs_nobody_a_lock(&locks);
    // The backend logs that it opened sessions.
    assert_ne!(log.panics_at(BACKEND), 0, "the backend has logged nothing");
}
