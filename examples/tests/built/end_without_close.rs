//! [`assert_that_ends_leave_no_lock`]: a process that ends without `Locks::close` leaves no lock behind.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use distlock::DistributedLock;
use lock_conformance::volume;

const PATIENCE: Duration = Duration::from_secs(30);
/// How long a process waits at its end by default.
const DEFAULT_LINGER: Duration = Duration::from_millis(200);

/// Ends processes in each way, and checks that their locks are free immediately: their leases would last a minute.
///
/// With a long linger, all locks are free. With the default linger, a lock may be left on a busy machine: then its process must have waited for
/// that time at least. The number of such locks is printed; on an idle machine it is zero.
pub(crate) fn assert_that_ends_leave_no_lock(url: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let started = Instant::now();
        // The server may not be ready yet.
        let locks = loop {
            match distlock::connect(url).await {
                Ok(locks) => break locks,
                Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
            }
        };
        let mains = ["tokio", "plain"].map(|main| ["dropped", "alive", "panic"].map(|ending| (main, ending)));
        let mut left = Vec::new();
        for (main, ending) in mains.into_iter().flatten() {
            for (linger, run) in (0..volume(3, 20)).flat_map(|run| [("long", run), ("default", run)]) {
                let name = format!("{main}-{ending}-{linger}-{run}");
                let began = Instant::now();
                let program = super::example("end_without_close");
                let output = Command::new(program).args([url, &name, linger, main, ending]).output().unwrap();
                let took = began.elapsed();
                let said = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.success(), ending != "panic", "{name}: {said}");
                let is_free = locks.mutex(&name).unwrap().try_acquire().await.unwrap().is_some();
                let was_waited_for = linger == "default" && took >= DEFAULT_LINGER;
                assert!(is_free || was_waited_for, "{name}: the lock was left after {took:?}: {said}");
                if !is_free {
                    left.push(name);
                }
            }
        }
        println!("locks that were left after the default linger: {left:?}");
        locks.close(PATIENCE).await.unwrap();
    });
}
