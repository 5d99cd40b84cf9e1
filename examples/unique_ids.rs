//! How do many processes draw numbers that are never drawn twice, without asking a store for each of them?
//!
//! Every grant of a name has a fencing token, and tokens of a name never repeat: a grant is a block of ids.
//!
//! ```sh
//! cargo run --example unique_ids
//! cargo run --example unique_ids --features redis -- redis://127.0.0.1:6379
//! ```

use std::{collections::HashSet, error::Error, ops::Range, time::Duration};

use distlock::{DistributedLock, Lock, Locks};

/// How many ids one grant provides.
const BLOCK: u64 = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "sqlite:".to_owned());
    let locks = distlock::connect(&url).await?;

    let drawers: Vec<_> = (0..4).map(|_| tokio::spawn(draw(locks.clone(), 250))).collect();
    let mut all = HashSet::new();
    for drawer in drawers {
        let ids = drawer.await??;
        assert!(ids.is_sorted(), "what one has drawn grows");
        println!("{} ids from {} on", ids.len(), ids[0]);
        all.extend(ids);
    }
    println!("{} different ids", all.len());
    assert_eq!(all.len(), 1000);
    locks.close(Duration::from_secs(5)).await?;
    Ok(())
}

async fn draw(locks: Locks, count: usize) -> Result<Vec<u64>, distlock::Error> {
    let mut ids = Ids { lock: locks.mutex("examples/ids")?, block: 0..0 };
    let mut drawn = Vec::new();
    for _ in 0..count {
        drawn.push(ids.draw().await?);
    }
    Ok(drawn)
}

/// Draws ids from a block, and takes a new one when it is used up.
struct Ids {
    lock: Lock,
    block: Range<u64>,
}

impl Ids {
    async fn draw(&mut self) -> Result<u64, distlock::Error> {
        if let Some(id) = self.block.next() {
            return Ok(id);
        }
        let guard = self.lock.acquire().await?;
        let first = guard.token().get() * BLOCK;
        // No other grant ever gets this token, so the lock can be released.
        guard.release().await?;
        self.block = first + 1..first + BLOCK;
        Ok(first)
    }
}
