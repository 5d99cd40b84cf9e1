//! How does a scheduled task run once, on however many machines it is scheduled?
//!
//! The lock keeps two machines from working at the same time. It does not know what was done before: a machine whose clock is late gets the
//! lock when it is free again. So each run records, in storage that all machines share, that the work is done, and checks that under the lock.
//!
//! ```sh
//! cargo run --example scheduled_task
//! cargo run --example scheduled_task --features redis -- redis://127.0.0.1:6379
//! ```

use std::{collections::BTreeSet, error::Error, sync::Arc, time::Duration};

use distlock::{AcquireOptions, DistributedLock, Locks};
use parking_lot::Mutex;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:".to_owned());
    let locks = distlock::connect(&url).await?;
    let done = Reports::default();
    // At midnight each machine wakes up, the last one a moment late.
    let machines: Vec<_> =
        (1..=4).map(|machine| tokio::spawn(nightly_report(locks.clone(), machine, done.clone()))).collect();
    let mut ran = 0;
    for machine in machines {
        ran += u32::from(machine.await??);
    }
    ran += u32::from(nightly_report(locks.clone(), 5, done).await?);
    println!("the report was made {ran} time");
    assert_eq!(ran, 1);
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// Returns whether this machine made the report.
async fn nightly_report(locks: Locks, machine: u32, done: Reports) -> Result<bool, distlock::Error> {
    // If the job hangs, another machine gets the lock after ten minutes, even though the keeper renews.
    let options =
        AcquireOptions::new().max_hold(Duration::from_secs(600)).label(format!("machine {machine}"));
    // `None` means that another machine makes the report. A problem with the store is an error, and never `None`.
    let Some(guard) = locks.mutex("examples/reports")?.try_acquire_with(&options).await? else {
        println!("machine {machine}: somebody else makes the report");
        return Ok(false);
    };
    let first = !done.has("2026-11-21");
    if first {
        println!("machine {machine}: I make the report");
        tokio::time::sleep(Duration::from_millis(100)).await;
        done.add("2026-11-21");
    } else {
        println!("machine {machine}: the report is there already");
    }
    guard.release().await?;
    Ok(first)
}

/// The storage of the reports: a table, a bucket or a folder that all machines share.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<BTreeSet<&'static str>>>);

impl Reports {
    fn has(&self, day: &str) -> bool {
        self.0.lock().contains(day)
    }

    fn add(&self, day: &'static str) {
        self.0.lock().insert(day);
    }
}
