//! How does only one of many machines run a job, while the others skip it?
//!
//! ```sh
//! cargo run --example skip_if_busy
//! ```

use std::{error::Error, sync::Arc, time::Duration};

use distlock::{AcquireOptions, DistributedLock, Locks};
use tokio::sync::Barrier;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = distlock::connect("memory:").await?;
    // Each machine wakes up at midnight, and asks.
    let asked = Arc::new(Barrier::new(4));
    let machines: Vec<_> = (1..=4)
        .map(|machine| tokio::spawn(nightly_report(locks.clone(), machine, Arc::clone(&asked))))
        .collect();
    let mut ran = 0;
    for machine in machines {
        ran += u32::from(machine.await??);
    }
    assert_eq!(ran, 1, "the report is made once");
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// True if it was this machine that made the report.
async fn nightly_report(locks: Locks, machine: u32, asked: Arc<Barrier>) -> Result<bool, distlock::Error> {
    // If the job hangs, another machine can have it after ten minutes, whatever the keeper renews.
    let options =
        AcquireOptions::new().max_hold(Duration::from_secs(600)).label(format!("machine {machine}"));
    let lock = locks.mutex("reports/2026-11-20")?;
    // `None` means that somebody else has it. Trouble with the store is an error, and never looks like `None`.
    let Some(guard) = lock.try_acquire_with(&options).await? else {
        println!("machine {machine}: somebody else makes the report");
        asked.wait().await;
        return Ok(false);
    };
    println!("machine {machine}: I make the report");
    // The job takes longer than the others take to ask.
    asked.wait().await;
    guard.release().await?;
    Ok(true)
}
