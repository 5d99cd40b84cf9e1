//! What it costs to wait while nothing happens: one thread looks, for all who wait in a process.

#[allow(dead_code, reason = "shared with the suite")]
mod file;

/// What is counted is that of a whole process, which has nothing else to do.
mod resources {
    use std::{
        fs,
        sync::Arc,
        time::{Duration, Instant},
    };

    use lock_conformance::{SLACK, alone, audit::eventually};
    use lock_core::{AcquireOptions, DistributedLock, Keeper, Lock, Locks, SystemEntropy};
    use rustix::time::{ClockId, clock_gettime};
    use tokio::{runtime::Runtime, task::JoinSet, time::sleep};

    use crate::file::{self, OwnFile};

    /// So long that nobody renews, or looks from its place, while it is counted: that is another cost, and one of each who waits.
    const TTL: Duration = Duration::from_secs(600);

    /// When somebody has written, SQLite is asked at each look for two seconds.
    const QUIET: Duration = Duration::from_millis(2500);

    const COUNTED: Duration = Duration::from_secs(5);

    /// A part of a core. One look each 25 ms, of some ten microseconds where tests are not optimised, is less than a hundredth of one; if
    /// each of 500 who wait looks for itself, it is several times this.
    const MOST_OF_A_CORE: f64 = 0.05;

    /// Forty looks, and what else has a timer: the keeper, and this test. If each who waits has a timer of its own, these come at different
    /// times, and it is hundreds.
    const MOST_WAKES_A_SECOND: f64 = 120.0;

    #[test]
    fn idle_waiters_of_a_process_cost_a_twentieth_of_a_core_at_most() {
        alone("resources::idle_waiters_of_a_process_cost_a_twentieth_of_a_core_at_most", || {
            Runtime::new().unwrap().block_on(async {
                for waiters in [1, 500] {
                    let (core, wakes) = cost_of(waiters).await;
                    println!("{waiters} who wait: {core:.4} of a core, {wakes:.0} wake-ups a second");
                    assert!(core <= MOST_OF_A_CORE, "{waiters} who wait take {core:.3} of a core");
                    assert!(
                        wakes <= MOST_WAKES_A_SECOND,
                        "{waiters} who wait wake {wakes:.0} times a second"
                    );
                }
            });
        });
    }

    /// A client that has nothing in common with another one of this process, so that each is a process to the other.
    fn lock(file: &OwnFile, keeper: &Keeper) -> Lock {
        let backend = Arc::new(file::client(&file.path(), keeper));
        let locks = Locks::with(backend, keeper.clone(), Arc::new(SystemEntropy));
        locks.mutex("job").unwrap().with_options(AcquireOptions::new().ttl(TTL))
    }

    /// What so many who wait take of a core, and how often in a second one of the threads here is woken.
    async fn cost_of(waiters: usize) -> (f64, f64) {
        let (file, keeper) = (OwnFile::new(), Keeper::start().unwrap());
        let [holder, other] = [lock(&file, &keeper), lock(&file, &keeper)];
        let held = holder.acquire().await.unwrap();
        let mut waiting = JoinSet::new();
        for _ in 0..waiters {
            let lock = other.clone();
            waiting.spawn(async move { lock.acquire().await.map(drop) });
        }
        let all_stand = || async { holder.queue().await.unwrap().len() > waiters };
        eventually("all of them in the queue", SLACK, all_stand).await;
        sleep(QUIET).await;

        let (began, before) = (Instant::now(), (used(), slept()));
        sleep(COUNTED).await;
        let (seconds, now) = (began.elapsed().as_secs_f64(), (used(), slept()));

        assert!(waiting.try_join_next().is_none(), "somebody does not wait any more");
        waiting.shutdown().await;
        held.release().await.unwrap();
        let empty = || async { holder.queue().await.unwrap().is_empty() };
        eventually("an empty queue", SLACK, empty).await;
        (
            (now.0.as_secs_f64() - before.0.as_secs_f64()) / seconds,
            f64::from(now.1.saturating_sub(before.1)) / seconds,
        )
    }

    /// The time of cores that this process has used.
    fn used() -> Duration {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        Duration::from_secs(used.tv_sec.unsigned_abs()) + Duration::from_nanos(used.tv_nsec.unsigned_abs())
    }

    /// How often a thread of this process went to sleep, which is as often as one was woken.
    fn slept() -> u32 {
        let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
        // It may have ended.
        let states = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
        let count = |state: String| -> u32 {
            let line = state.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.expect("Linux counts them").trim().parse().unwrap()
        };
        states.map(count).sum()
    }
}
