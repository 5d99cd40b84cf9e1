//! A log subscriber that panics at every line and in every method of a span makes no client lose a lock.

#[path = "support/panicking_log.rs"]
mod panicking_log;

use std::sync::Arc;

use lock_core::{Keeper, Locks, Memory, SystemEntropy};

use self::panicking_log::PanickingLog;

/// The only test of this program, because a log subscriber serves a whole process.
#[test]
fn a_log_subscriber_that_panics_costs_nobody_a_lock() {
    let log = PanickingLog::install();
    let locks = Locks::with(Arc::new(Memory::new()), Keeper::start().unwrap(), Arc::new(SystemEntropy));
    log.costs_nobody_a_lock(&locks);
}
