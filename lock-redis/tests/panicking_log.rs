//! A log subscriber that panics at every line of every level, those of the backend too, makes no client lose a lock.

mod common;
#[path = "../../lock-core/tests/support/panicking_log.rs"]
mod panicking_log;

use std::sync::Arc;

use common::Server;
use futures_executor::block_on;
use lock_core::{DistributedLock, Keeper, Locks, SystemEntropy};
use lock_redis::{Redis, RedisConfig};

use self::panicking_log::{PanickingLog, eventually};

/// The targets of the backend's log lines begin with this.
const BACKEND: &str = "lock_redis";

/// The only test of this program, because a log subscriber serves a whole process.
#[test]
fn a_log_subscriber_that_panics_costs_nobody_a_lock() {
    let log = PanickingLog::install();
    let (server, keeper) = (Server::start(), Keeper::start().unwrap());
    let config: RedisConfig = server.url().parse().unwrap();
    let redis = Redis::new(config, &keeper).unwrap();
    let locks = Locks::with(Arc::new(redis), keeper, Arc::new(SystemEntropy));
    log.costs_nobody_a_lock(&locks);
    // While nothing is wrong, too: of a connection that is open, and of notifications that are live.
    assert_ne!(log.panics_at(BACKEND), 0, "the backend has told of nothing");

    // The backend logs that its notifications are down.
    let held = block_on(locks.mutex("held").unwrap().acquire()).unwrap();
    let before = log.panics_at(BACKEND);
    eventually("an end of the notifications", || server.command::<u64>("CLIENT KILL TYPE pubsub") > 0);
    eventually("a panic at that", || log.panics_at(BACKEND) > before);
    log.costs_nobody_a_lock(&locks);
    assert!(held.is_held(), "{:?}", held.state());
    block_on(held.release()).unwrap().confirmed().unwrap();
}
