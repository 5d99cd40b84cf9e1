//! A log subscriber that panics at every line of every level, those of the backend too, makes no client lose a lock.

#[path = "../../lock-core/tests/support/panicking_log.rs"]
mod panicking_log;
mod server;

use std::sync::Arc;

use futures_executor::block_on;
use lock_conformance::Links;
use lock_core::{DistributedLock, Keeper, Locks, SystemEntropy};
use lock_etcd::{Etcd, EtcdConfig};
use tokio::runtime::Runtime;

use self::{
    panicking_log::{PanickingLog, eventually},
    server::TestServer,
};

/// The targets of the backend's log lines begin with this.
const BACKEND: &str = "lock_etcd";

/// The only test of this program, because a log subscriber serves a whole process.
#[test]
fn a_log_subscriber_that_panics_costs_nobody_a_lock() {
    let log = PanickingLog::install();
    let (runtime, keeper) = (Runtime::new().unwrap(), Keeper::start().unwrap());
    let server = runtime.block_on(TestServer::start("case")).behind_proxy();
    let config = EtcdConfig::from_url(&format!("etcd://{}/case", server.address())).unwrap();
    let etcd = Etcd::new(config, &keeper).unwrap();
    let locks = Locks::with(Arc::new(etcd), keeper, Arc::new(SystemEntropy));
    log.costs_nobody_a_lock(&locks);
    // While nothing is wrong, the backend logs that it opened connections and sessions.
    assert_ne!(log.panics_at(BACKEND), 0, "the backend has logged nothing");

    // The backend logs that its stream is down, and live again.
    let held = block_on(locks.mutex("held").unwrap().acquire()).unwrap();
    let before = log.panics_at(BACKEND);
    server.proxy().reset(Links::All);
    eventually("a panic at that", || log.panics_at(BACKEND) > before);
    log.costs_nobody_a_lock(&locks);
    assert!(held.is_held(), "{:?}", held.state());
    block_on(held.release()).unwrap().confirmed().unwrap();
}
