//! Thousands of locks are lost at the same moment while a slow log subscriber writes, on a keeper with its own thread.

#[path = "support/crowd.rs"]
mod crowd;

use std::{sync::Arc, time::Duration};

use crowd::Crowd;
use lock_core::{AcquireOptions, Keeper, Locks, Memory, SystemEntropy};

/// The other leases are short, so that a keeper that is busy for a second loses them. On a busy machine, beside other tests, a loss would show
/// nothing.
mod alone {
    use super::*;

    /// The only test of this program, because a log subscriber serves a whole process.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn losses_by_the_thousand_beside_a_slow_log_cost_no_other_lock() {
        let keeper = Keeper::start().unwrap();
        let locks = || Locks::with(Arc::new(Memory::new()), keeper.clone(), Arc::new(SystemEntropy));
        let ending = AcquireOptions::new().ttl(Duration::from_secs(3)).renew(false);
        Crowd { ending, kept: Duration::from_secs(1) }.is_lost(&locks(), &locks()).await;
    }
}
