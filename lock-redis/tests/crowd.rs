//! Thousands of locks that are lost at the same time, with a slow subscriber for the log.

mod common;
#[path = "../../lock-core/tests/support/crowd.rs"]
mod crowd;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use common::Server;
use crowd::Crowd;
use lock_conformance::{Layer, Layered};
use lock_core::{
    AcquireOptions, Backend, BackendError, BootTime, Entry, Keeper, Locks, Memory, Standing, Step,
    SystemEntropy, WaitMode,
};
use lock_redis::{Redis, RedisConfig};

/// Ends the validity of all locks of the crowd at the same time.
#[derive(Debug)]
struct EndsAt(BootTime);

#[async_trait]
impl Layer for EndsAt {
    async fn enter(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        step: Step,
        wait: WaitMode,
    ) -> Result<Standing, BackendError> {
        let mut standing = store.enter(entry, step, wait).await?;
        if let Standing::Admitted { valid_until, .. } = &mut standing
            && entry.name.as_str().starts_with("crowd/")
        {
            *valid_until = self.0.min(*valid_until);
        }
        Ok(standing)
    }
}

/// This keeps the machine busy, and the leases that have to survive are short.
mod alone {
    use super::*;

    /// The only test of this program, because a log subscriber serves a whole process.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn losses_by_the_thousand_beside_a_slow_log_cost_nobody_else_a_lock() {
        let (server, keeper) = (Server::start(), Keeper::start().unwrap());
        let config: RedisConfig = server.url().parse().unwrap();
        let redis = Arc::new(Redis::new(config, &keeper).unwrap());
        // Enough time to acquire them.
        let end = keeper.now() + Duration::from_secs(12);
        let locks = |store| Locks::with(store, keeper.clone(), Arc::new(SystemEntropy));
        let ours = locks(Arc::new(Layered::new(redis, Arc::new(EndsAt(end)))));
        let beside = locks(Arc::new(Memory::new()));
        let ending = AcquireOptions::new().ttl(Duration::from_secs(60)).renew(false);
        Crowd { ending, kept: Duration::from_millis(1_500) }.is_lost(&ours, &beside).await;
    }
}
