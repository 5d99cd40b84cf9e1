//! A log subscriber that panics at every line of every level, those of the backend too, makes no client lose a lock.

#[allow(dead_code, reason = "shared with the suite")]
mod file;
#[path = "../../lock-core/tests/support/panicking_log.rs"]
mod panicking_log;

use std::{sync::Arc, thread};

use futures_executor::block_on;
use lock_conformance::ServerControl;
use lock_core::{DistributedLock, Keeper, Locks, SystemEntropy};

use self::{
    file::OwnFile,
    panicking_log::{PanickingLog, eventually},
};

/// The targets of the backend's log lines begin with this.
const BACKEND: &str = "lock_sqlite";

/// The only test of this program, because a log subscriber serves a whole process.
#[test]
fn a_log_subscriber_that_panics_costs_nobody_a_lock() {
    let log = PanickingLog::install();
    let file = OwnFile::new();
    let (locks, other) = (client(&file), client(&file));
    log.costs_nobody_a_lock(&locks);

    // The backend logs that a hint was not delivered: the waiter has no socket any more.
    let held = block_on(locks.mutex("held").unwrap().acquire()).unwrap();
    let waiting = {
        let lock = other.mutex("held").unwrap();
        thread::spawn(move || block_on(lock.acquire()).unwrap())
    };
    let rows = || block_on(locks.mutex("held").unwrap().queue()).unwrap().len();
    eventually("a waiter", || rows() == 2);
    let before = log.panics_at(BACKEND);
    block_on(file.cut_notifications()).unwrap();
    block_on(held.release()).unwrap().confirmed().unwrap();
    let next = waiting.join().expect("a waiter goes on");
    eventually("a panic at that", || log.panics_at(BACKEND) > before);
    block_on(next.release()).unwrap().confirmed().unwrap();
    log.costs_nobody_a_lock(&locks);
}

/// A client that shares nothing with other clients of this process.
fn client(file: &OwnFile) -> Locks {
    let keeper = Keeper::start().unwrap();
    let backend = file::client(&file.path(), &keeper);
    Locks::with(Arc::new(backend), keeper, Arc::new(SystemEntropy))
}
