//! [`assert_that_ends_leave_no_lock`]: a process that ends without `Locks::close` leaves no lock behind.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use distlock::DistributedLock;
use lock_conformance::volume;

const PATIENCE: Duration = Duration::from_secs(30);

/// Has processes end in each way, and finds their locks free at once: their leases would last a minute.
pub(crate) fn assert_that_ends_leave_no_lock(url: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let started = Instant::now();
        // The server may not serve yet.
        let locks = loop {
            match distlock::connect(url).await {
                Ok(locks) => break locks,
                Err(error) => assert!(started.elapsed() < PATIENCE, "{error}"),
            }
        };
        for main in ["tokio", "plain"] {
            for ending in ["dropped", "alive", "panic"] {
                for run in 0..volume(3, 20) {
                    let name = format!("{main}-{ending}-{run}");
                    let program = super::example("end_without_close");
                    let output = Command::new(program).args([url, &name, main, ending]).output().unwrap();
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert_eq!(output.status.success(), ending != "panic", "{name}: {said}");
                    let taken = locks.mutex(&name).unwrap().try_acquire().await.unwrap();
                    assert!(taken.is_some(), "{name}: the lock was left: {said}");
                }
            }
        }
        locks.close(PATIENCE).await.unwrap();
    });
}
