//! How do ttl, waiting and the kind of lock come from a settings file?
//!
//! ```sh
//! cargo run --example settings
//! ```

use std::{error::Error, sync::Arc, time::Duration};

use distlock::{AcquireOptions, DistributedLock, Locks};

/// Whatever is left out has its default. JSON here; any format of serde will do.
const FILE: &str = r#"{
    "ttl": "10s", "wait": "1m 30s", "max_hold": "1h", "outage": "wait",
    "back_off": { "least": "100ms", "most": "5s" }, "label": "web-1"
}"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options: AcquireOptions = serde_json::from_str(FILE)?;
    // Every acquisition checks its options; a service rather learns of a mistake when it starts.
    options.validate()?;
    println!("{options:?}");
    let wrong: AcquireOptions = serde_json::from_str(r#"{ "ttl": "1ms" }"#)?;
    if let Err(mistake) = wrong.validate() {
        println!("a mistake is told as: {mistake}");
    }

    let locks = distlock::connect("memory:").await?.with_options(options);
    for kind in ["mutex", "shared", "exclusive", "one of 8"] {
        let lock = lock_of(&locks, kind)?;
        let guard = lock.acquire().await?;
        println!("{kind}: ttl {:?}, token {}", guard.ttl(), guard.token());
        guard.release().await?;
    }
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// Who uses the lock need not know which kind it is.
fn lock_of(locks: &Locks, kind: &str) -> Result<Arc<dyn DistributedLock>, distlock::Error> {
    Ok(match kind {
        "shared" => Arc::new(locks.rwlock("cache")?.read()),
        "exclusive" => Arc::new(locks.rwlock("cache")?.write()),
        "one of 8" => Arc::new(locks.semaphore("slots", 8)?.permits(1)?),
        _ => Arc::new(locks.mutex("job")?),
    })
}
