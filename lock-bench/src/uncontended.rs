//! [`pairs`]: acquire and release of a lock without contention, in the same loop as the floor's.

use std::time::Instant;

use lock_core::{AcquireOptions, DistributedLock, Lock};

use crate::{error::Result, samples::Samples};

/// When a loop ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// After so many pairs.
    After(u64),
    /// At this time.
    At(Instant),
}

impl Stop {
    pub(crate) fn should_continue(self, done: u64) -> bool {
        match self {
            Self::After(rounds) => done < rounds,
            Self::At(time) => Instant::now() < time,
        }
    }
}

/// Acquire and release, one pair after the other.
pub(crate) async fn pairs(lock: &Lock, stop: Stop) -> Result<Samples> {
    let options = AcquireOptions::new();
    let mut samples = Samples::default();
    while stop.should_continue(samples.len()) {
        let started = Instant::now();
        let guard = lock.acquire_with(&options).await?;
        let released = guard.release().await?;
        samples.record(started.elapsed());
        released.confirmed()?;
    }
    Ok(samples)
}
