//! Somebody's log subscriber that panics at every line: nobody loses a lock by that.

#[path = "support/panicking_log.rs"]
mod panicking_log;

use std::sync::Arc;

use lock_core::{Keeper, Locks, Memory, SystemEntropy};

use self::panicking_log::PanickingLog;

/// The only test of this program: a subscriber is that of a whole process.
#[test]
fn a_log_subscriber_that_panics_costs_nobody_a_lock() {
    let log = PanickingLog::install();
    let locks = Locks::with(Arc::new(Memory::new()), Keeper::start().unwrap(), Arc::new(SystemEntropy));
    log.costs_nobody_a_lock(&locks);
}
