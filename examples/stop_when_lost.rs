//! How does my work stop when its lock is lost?
//!
//! `run` does all of it. With your own guard, use `select!`, or check `is_held` between two steps.
//!
//! ```sh
//! cargo run --example stop_when_lost
//! ```

use std::{error::Error, time::Duration};

use distlock::{AcquireOptions, DistributedLock, Locks, LostReason};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = distlock::connect("memory:").await?;
    with_run(&locks).await?;
    with_select(&locks).await?;
    with_a_loop(&locks).await?;
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// `run` drops the body at its next await, so no later part of it runs after the loss.
async fn with_run(locks: &Locks) -> Result<(), Box<dyn Error>> {
    let lock = locks.mutex("import")?;
    let rows = lock.run(|_| async { 42 }).await?;
    println!("run: the work was done under the lock, {rows} rows, and the lock is released");

    let operator = locks.clone();
    let stopped = lock
        .run(|hold| async move {
            println!("run: the work goes on and on, with token {}", hold.token());
            // An operator takes the lock away in the middle of it.
            let _ = operator.operator().evict(hold.name(), hold.entry_id()).await;
            tokio::time::sleep(Duration::from_secs(3600)).await;
        })
        .await;
    match stopped {
        Err(error @ distlock::Error::Lost { reason: LostReason::Gone, .. }) => println!("run: {error}"),
        other => return Err(format!("the work should have been stopped: {other:?}").into()),
    }
    Ok(())
}

/// The same by hand, for work that is not a single future.
async fn with_select(locks: &Locks) -> Result<(), Box<dyn Error>> {
    // Without renewal the lease ends at its ttl, as if the store could not be reached any more.
    let options = AcquireOptions::new().ttl(Duration::from_millis(200)).renew(false);
    let guard = locks.mutex("export")?.acquire_with(&options).await?;
    tokio::select! {
        reason = guard.lost() => println!("select: the work stops, {reason}"),
        () = tokio::time::sleep(Duration::from_secs(3600)) => return Err("the lock was never lost".into()),
    }
    let Err(error) = guard.release().await else { return Err("a lock that was lost was released".into()) };
    println!("select: to release it changes nothing for others: {error}");
    Ok(())
}

/// Code that computes without an await can check `is_held`, which only looks at the clock.
async fn with_a_loop(locks: &Locks) -> Result<(), Box<dyn Error>> {
    let options = AcquireOptions::new().ttl(Duration::from_millis(200)).renew(false);
    let guard = locks.mutex("rebuild")?.acquire_with(&options).await?;
    let steps = tokio::task::block_in_place(|| {
        let mut steps = 0_u64;
        while guard.is_held() {
            std::thread::sleep(Duration::from_millis(10));
            steps += 1;
        }
        steps
    });
    println!("loop: {steps} steps, and none after the deadline");
    Ok(())
}
