//! How do all machines together stay within a limit, such as the calls that a supplier allows at once?
//!
//! ```sh
//! cargo run --example semaphore
//! cargo run --example semaphore --features redis -- redis://127.0.0.1:6379
//! ```

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use distlock::{DistributedLock, Semaphore};

/// The number of simultaneous calls that the supplier allows, over all machines.
const CALLS: u32 = 4;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:".to_owned());
    let locks = distlock::connect(&url).await?;
    let supplier = locks.semaphore("examples/supplier", CALLS)?;
    let calls = Arc::new(Calls::default());

    // Most take one permit; every fourth is a batch that takes three.
    let workers: Vec<_> = (0..12)
        .map(|n| if n % 4 == 3 { 3 } else { 1 })
        .map(|permits| tokio::spawn(call(supplier.clone(), permits, Arc::clone(&calls))))
        .collect();
    for worker in workers {
        worker.await??;
    }
    let most = calls.most.load(Ordering::SeqCst);
    println!("never more than {most} calls at once; the limit is {CALLS}");
    assert!(most <= CALLS);
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

async fn call(supplier: Semaphore, permits: u32, calls: Arc<Calls>) -> Result<(), distlock::Error> {
    let work = async |_hold| {
        let now = calls.now.fetch_add(permits, Ordering::SeqCst) + permits;
        calls.most.fetch_max(now, Ordering::SeqCst);
        println!("{permits} more, {now} at once");
        tokio::time::sleep(Duration::from_millis(30)).await;
        calls.now.fetch_sub(permits, Ordering::SeqCst);
    };
    supplier.permits(permits)?.run(work).await
}

#[derive(Default)]
struct Calls {
    now: AtomicU32,
    most: AtomicU32,
}
