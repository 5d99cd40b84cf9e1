//! How is something set up exactly once, by the first process, while all others wait until it is ready?
//!
//! ```sh
//! cargo run --example init_once
//! cargo run --example init_once --features redis -- redis://127.0.0.1:6379
//! ```

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use distlock::{AcquireOptions, DistributedLock, Locks};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:".to_owned());
    let locks = distlock::connect(&url).await?;
    let folder = std::env::temp_dir().join(format!("distlock-init-{}", std::process::id()));

    let services: Vec<_> = (1..=4).map(|n| tokio::spawn(start(locks.clone(), n, folder.clone()))).collect();
    let mut set_up = 0;
    for service in services {
        set_up += u32::from(service.await?.map_err(|error| error.to_string())?);
    }
    println!("set up {set_up} time, and all have started");
    assert_eq!(set_up, 1);
    fs::remove_dir_all(folder)?;
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// Starts a service. True if it was the one that set things up.
async fn start(locks: Locks, n: u32, folder: PathBuf) -> Result<bool, Box<dyn Error + Send + Sync>> {
    // After the setup no lock is needed: most starts do not contact the store.
    if folder.exists() {
        println!("service {n}: it is there");
        return Ok(false);
    }
    let options = AcquireOptions::new().wait(Duration::from_secs(60)).label(format!("service {n}"));
    let guard = locks.mutex("examples/set-up")?.acquire_with(&options).await?;
    // Another service may have done it while this one waited.
    let first = !folder.exists();
    if first {
        println!("service {n}: I set it up");
        set_up(&folder).await?;
    } else {
        println!("service {n}: somebody has set it up");
    }
    guard.release().await?;
    Ok(first)
}

/// The result appears completely or not at all: if this process dies halfway, or loses the lock, the next one starts over.
async fn set_up(folder: &Path) -> std::io::Result<()> {
    let half = folder.with_extension("half");
    fs::create_dir_all(&half)?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    fs::write(half.join("schema"), "version 1")?;
    fs::rename(half, folder)
}
