//! How does one process fill a cache while all others wait for it, instead of all asking the slow source at once?
//!
//! ```sh
//! cargo run --example cache_fill
//! cargo run --example cache_fill --features redis -- redis://127.0.0.1:6379
//! ```

use std::{
    collections::HashMap,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use distlock::{AcquireOptions, DistributedLock, Locks};
use parking_lot::Mutex;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:".to_owned());
    let cache = Cache { locks: distlock::connect(&url).await?, shared: Arc::default() };

    let requests: Vec<_> = (0..20)
        .map(|n| tokio::spawn(serve(cache.clone(), if n % 2 == 0 { "prices" } else { "names" })))
        .collect();
    for request in requests {
        request.await??;
    }
    let asked = cache.shared.asked.load(Ordering::SeqCst);
    println!("20 requests for 2 pages, and the source was asked {asked} times");
    assert_eq!(asked, 2);
    cache.locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

async fn serve(cache: Cache, page: &'static str) -> Result<String, distlock::Error> {
    if let Some(text) = cache.look(page) {
        return Ok(text);
    }
    // A lock for each page: filling one page delays no request for another.
    let lock = cache.locks.mutex(format!("examples/cache/{page}"))?;
    // The lock saves work, and is not needed for correctness: a request that does not get it in time asks the source.
    let guard = match lock.acquire_with(&AcquireOptions::new().wait(Duration::from_secs(30))).await {
        Ok(guard) => guard,
        Err(distlock::Error::WaitTimeout { .. }) => return Ok(cache.ask_source(page).await),
        Err(error) => return Err(error),
    };
    // The previous holder has filled the page.
    let text = match cache.look(page) {
        Some(text) => text,
        None => cache.ask_source(page).await,
    };
    guard.release().await?;
    Ok(text)
}

/// A cache that all machines share, and the source behind it.
#[derive(Clone)]
struct Cache {
    locks: Locks,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    pages: Mutex<HashMap<&'static str, String>>,
    asked: AtomicU32,
}

impl Cache {
    fn look(&self, page: &str) -> Option<String> {
        self.shared.pages.lock().get(page).cloned()
    }

    async fn ask_source(&self, page: &'static str) -> String {
        self.shared.asked.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        let text = format!("all {page}");
        self.shared.pages.lock().insert(page, text.clone());
        println!("{page}: filled");
        text
    }
}
