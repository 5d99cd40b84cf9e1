//! The cost of waiting while nothing happens: one thread looks, for all waiters of a process.

#[allow(dead_code, reason = "shared with the suite")]
mod file;
#[allow(dead_code, reason = "shared with other tests")]
mod other;

use std::{path::Path, sync::Arc, time::Duration};

use lock_core::{AcquireOptions, DistributedLock, Keeper, Lock, Locks, SystemEntropy};

/// So long that no entry is renewed, and no waiter looks again, while the cost is counted. That would be another cost, for each waiter.
const TTL: Duration = Duration::from_secs(600);

/// Not a test by itself: the tasks of another process.
#[test]
fn other() {
    other::carry_out(async |_, path| {
        let keeper = Keeper::start().unwrap();
        let guard = lock(path, &keeper).acquire().await.unwrap();
        other::say("granted");
        guard.release().await.unwrap();
    });
}

/// A client that shares nothing with another one of this process, so that each counts as a process for the other.
fn lock(path: &Path, keeper: &Keeper) -> Lock {
    let backend = Arc::new(file::client(path, keeper));
    let locks = Locks::with(backend, keeper.clone(), Arc::new(SystemEntropy));
    locks.mutex("job").unwrap().with_options(AcquireOptions::new().ttl(TTL))
}

/// These tests count the cost of a whole process, so nothing else may run in it.
mod resources {
    use std::{
        fs,
        time::{Duration, Instant},
    };

    use lock_conformance::{SLACK, alone, audit::eventually};
    use lock_core::{DistributedLock, Keeper};
    use rustix::time::{ClockId, clock_gettime};
    use tokio::{runtime::Runtime, task::JoinSet, time::sleep};

    use crate::{file::OwnFile, lock, other::Other};

    /// After a write, SQLite is asked at each look for two seconds.
    const QUIET: Duration = Duration::from_millis(2500);

    const COUNTED: Duration = Duration::from_secs(5);

    /// A part of a core. One look each 25 ms, of some ten microseconds in tests that are not optimised, takes less than a hundredth of a core.
    /// If each of 500 waiters looked by itself, it would be several times this limit.
    const MOST_OF_A_CORE: f64 = 0.05;

    /// Forty looks, and the timers of the keeper and this test. If each waiter had a timer of its own, these would fire at different times,
    /// and there would be hundreds.
    const MOST_WAKES_A_SECOND: f64 = 120.0;

    /// Processes behind two others look every two seconds, once the queue has not changed for as long. The rest is for a busy machine, on
    /// which each of them takes its next look later.
    const STILL: Duration = Duration::from_secs(8);

    /// The name of the worker thread, which looks. The keeper has its own timer on any store.
    const STORE: &str = "distlock-sqlite";
    const MOST_LOOKS_A_SECOND: f64 = 2.0;

    /// Each process looks far more often when it comes, and when the queue changes.
    #[test]
    fn a_process_behind_two_others_wakes_twice_a_second_at_most() {
        alone("resources::a_process_behind_two_others_wakes_twice_a_second_at_most", || {
            Runtime::new().unwrap().block_on(async {
                let (file, keeper) = (OwnFile::new(), Keeper::start().unwrap());
                let holder = lock(&file.path(), &keeper);
                let held = holder.acquire().await.unwrap();
                let mut waiting = Vec::new();
                for ahead in 1..=3 {
                    waiting.push(Other::start("wait", &file.path()));
                    let stands = || async { holder.queue().await.unwrap().len() > ahead };
                    eventually("one more in the queue", SLACK, stands).await;
                }
                sleep(STILL).await;
                let third = waiting[2].child.id().to_string();
                let (began, before) = (Instant::now(), slept(&third, STORE));
                sleep(COUNTED).await;
                let wakes = f64::from(slept(&third, STORE) - before) / began.elapsed().as_secs_f64();
                println!("behind two others: {wakes:.1} wake-ups a second");
                assert!(wakes > 0.0, "nobody looks");
                assert!(wakes <= MOST_LOOKS_A_SECOND, "it wakes {wakes:.1} times a second");
                held.release().await.unwrap();
                for other in &waiting {
                    assert_eq!(other.says(), "granted");
                }
            });
        });
    }

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

    /// The part of a core that this many waiters take, and how often a second a thread of this process is woken.
    async fn cost_of(waiters: usize) -> (f64, f64) {
        let (file, keeper) = (OwnFile::new(), Keeper::start().unwrap());
        let [holder, other] = [lock(&file.path(), &keeper), lock(&file.path(), &keeper)];
        let held = holder.acquire().await.unwrap();
        let mut waiting = JoinSet::new();
        for _ in 0..waiters {
            let lock = other.clone();
            waiting.spawn(async move { lock.acquire().await.map(drop) });
        }
        let all_stand = || async { holder.queue().await.unwrap().len() > waiters };
        eventually("all of them in the queue", SLACK, all_stand).await;
        sleep(QUIET).await;

        let (began, before) = (Instant::now(), (used(), slept("self", "")));
        sleep(COUNTED).await;
        let (seconds, now) = (began.elapsed().as_secs_f64(), (used(), slept("self", "")));

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

    /// The processor time that this process has used.
    fn used() -> Duration {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        Duration::from_secs(used.tv_sec.unsigned_abs()) + Duration::from_nanos(used.tv_nsec.unsigned_abs())
    }

    /// How often a thread of a process with such a name went to sleep, which is as often as it was woken.
    fn slept(process: &str, threads: &str) -> u32 {
        let name = format!("Name:\t{threads}");
        let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
        // The thread may have ended.
        let states = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
        let count = |state: String| -> u32 {
            let line = state.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.expect("Linux counts them").trim().parse().unwrap()
        };
        states.filter(|state| state.starts_with(&name)).map(count).sum()
    }
}
