//! How do many read at once, while a writer is alone?
//!
//! ```sh
//! cargo run --example read_write
//! ```

use std::{error::Error, time::Duration};

use distlock::{AcquireOptions, DistributedLock, RwLock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = distlock::connect("memory:").await?;
    let config = locks.rwlock("config")?;

    let (one, two) = (config.read().acquire().await?, config.read().acquire().await?);
    println!("two readers at once, tokens {} and {}", one.token(), two.token());

    let writer = tokio::spawn(stand_in_line(config.clone(), "writer"));
    until_waiting(&config, 1).await?;
    // First come, first served: a reader that comes after a waiting writer does not pass it, so the writer never starves.
    let reader = tokio::spawn(stand_in_line(config.clone(), "late reader"));
    until_waiting(&config, 2).await?;
    for row in config.read().queue().await? {
        let role = if row.admitted { "holds" } else { "waits" };
        println!("  {role}: {}, {}", row.claim, row.label.as_deref().unwrap_or("no label"));
    }

    one.release().await?;
    two.release().await?;
    let (written, read) = (writer.await??, reader.await??);
    assert!(written < read, "the writer was first");
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// Takes one side of the lock, works, and returns the token.
async fn stand_in_line(config: RwLock, who: &'static str) -> Result<distlock::FencingToken, distlock::Error> {
    let side = if who == "writer" { config.write() } else { config.read() };
    let guard = side.acquire_with(&AcquireOptions::new().label(who)).await?;
    println!("{who}: my turn, token {}", guard.token());
    let token = guard.token();
    tokio::time::sleep(Duration::from_millis(50)).await;
    guard.release().await?;
    Ok(token)
}

async fn until_waiting(config: &RwLock, waiters: usize) -> Result<(), distlock::Error> {
    while config.read().queue().await?.iter().filter(|row| !row.admitted).count() < waiters {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
