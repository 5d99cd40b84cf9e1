//! `kinds`: the pair of a reader, of a writer and of one permit of a semaphore, against that of a mutex.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lock_core::{AcquireOptions, DistributedLock, Keeper, Locks, SystemEntropy};

use super::{Bench, Measurement, Outcome, RowFigures, RowSpec};
use crate::{drivers::PERMITS, error::Result, samples::Samples, store::StoreKind};

pub(super) struct Kinds;

/// Pairs in a slice. The kinds alternate slice by slice: see `pair`.
const PAIRS: usize = 100;

/// Slices in a round.
const SLICES: u32 = 5;

#[async_trait]
impl Measurement for Kinds {
    fn rows(&self, _: StoreKind) -> Vec<RowSpec> {
        ["read", "write", "permit"].map(|kind| RowSpec::new(format!("kinds.{kind}.p50"), "us")).into()
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        let options = AcquireOptions::new().ttl(Duration::from_secs(30));
        let locks = Locks::with(bench.store.backend()?, Keeper::shared(), Arc::new(SystemEntropy))
            .with_options(options);
        let mutex = locks.mutex("bench:kinds")?;
        let (shared, semaphore) =
            (locks.rwlock("bench:kinds:rw")?, locks.semaphore("bench:kinds:s", PERMITS as u32)?);
        let kinds: [(&str, Arc<dyn DistributedLock>); 3] = [
            ("read", Arc::new(shared.read())),
            ("write", Arc::new(shared.write())),
            ("permit", Arc::new(semaphore.permits(1)?)),
        ];
        let mut figures = RowFigures::default();
        for _ in bench.rounds("kinds") {
            for _ in 0..SLICES {
                for (kind, lock) in &kinds {
                    let floor = slice(&mutex).await?;
                    let ours = slice(&**lock).await?;
                    figures.value(
                        format!("kinds.{kind}.p50"),
                        ours.percentile(50.0),
                        Some(floor.percentile(50.0)),
                    );
                }
            }
        }
        Ok(Outcome::Measured(figures))
    }
}

async fn slice(lock: &dyn DistributedLock) -> Result<Samples> {
    let mut samples = Vec::with_capacity(PAIRS);
    for _ in 0..PAIRS {
        let started = Instant::now();
        lock.acquire().await?.release().await?;
        samples.push(started.elapsed());
    }
    Ok(samples.into_iter().collect())
}
