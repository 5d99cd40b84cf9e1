//! Thousands of locks that are lost in the same moment, beside somebody who writes a log slowly: on a keeper with a thread of its
//! own.

#[path = "support/crowd.rs"]
mod crowd;

use std::{sync::Arc, time::Duration};

use crowd::Crowd;
use lock_core::{AcquireOptions, Keeper, Locks, Memory, SystemEntropy};

/// The leases that are kept are short, so that a keeper that is busy for a second loses them: beside others, on a busy machine, that says
/// nothing.
mod alone {
    use super::*;

    /// The only test of this program: a subscriber is that of a whole process.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn losses_by_the_thousand_beside_a_slow_log_cost_no_other_lock() {
        let keeper = Keeper::start().unwrap();
        let locks = || Locks::with(Arc::new(Memory::new()), keeper.clone(), Arc::new(SystemEntropy));
        let ending = AcquireOptions::new().ttl(Duration::from_secs(3)).renew(false);
        Crowd { ending, kept: Duration::from_secs(1) }.is_lost(&locks(), &locks()).await;
    }
}
