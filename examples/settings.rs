//! How do the store, ttl, waiting and the kind of lock come from a settings file?
//!
//! ```sh
//! cargo run --example settings
//! ```

use std::{error::Error, sync::Arc, time::Duration};

use distlock::{DistributedLock, Locks, Settings};

/// The store and the options of the locks. Omitted options have their defaults. This is JSON; any self-describing format of serde works.
const FILE: &str = r#"{
    "url": "memory:",
    "options": {
        "ttl": "10s", "wait": "1m 30s", "max_hold": "1h", "outage": "wait",
        "back_off": { "least": "100ms", "most": "5s" }, "label": "web-1"
    }
}"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let settings: Settings = serde_json::from_str(FILE)?;
    // The URL is not shown, because it may contain a password.
    println!("{settings:?}");
    // A mistake is reported when the service starts, before it connects.
    let wrong: Settings = serde_json::from_str(r#"{ "url": "memory:", "options": { "ttl": "1ms" } }"#)?;
    if let Err(mistake) = wrong.connect().await {
        println!("a mistake is told as: {mistake}");
    }

    let locks = settings.connect().await?;
    for kind in ["mutex", "shared", "exclusive", "one of 8"] {
        let lock = lock_of(&locks, kind)?;
        let guard = lock.acquire().await?;
        println!("{kind}: ttl {:?}, token {}", guard.ttl(), guard.token());
        guard.release().await?;
    }
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

/// The code that uses the lock need not know its kind.
fn lock_of(locks: &Locks, kind: &str) -> Result<Arc<dyn DistributedLock>, distlock::Error> {
    Ok(match kind {
        "shared" => Arc::new(locks.rwlock("cache")?.read()),
        "exclusive" => Arc::new(locks.rwlock("cache")?.write()),
        "one of 8" => Arc::new(locks.semaphore("slots", 8)?.permits(1)?),
        _ => Arc::new(locks.mutex("job")?),
    })
}
