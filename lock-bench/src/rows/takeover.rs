//! `takeover`: the time from the last renewal of a holder that is killed (`kill -9`) until the next waiter has its guard. From
//! the kill, on a store that notices when a process dies.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::{AcquireOptions, DistributedLock, margin};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{Bench, Bound, Measurement, Outcome, RowFigures, RowSpec};
use crate::{
    counting_backend::CountingBackend,
    drivers::{
        Driver, DriverProcess,
        protocol::{Request, Response},
    },
    error::Result,
    store::StoreKind,
    timestamp::Timestamp,
};

pub(super) struct Takeover;

const TTL: Duration = Duration::from_secs(2);

/// The bound on a store that notices when a process dies.
const AT_ONCE: Duration = Duration::from_millis(100);

const KILLS: u32 = 7;

#[async_trait]
impl Measurement for Takeover {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec> {
        let max = RowSpec::new("takeover.max", "ms");
        let max = match store {
            store if store.is_sqlite() => max.bound(Bound::ValueAtMost(millis(AT_ONCE))),
            // A session lives longer than the ttl that was asked for, and the client relies on it for a shorter time.
            store if store.is_zk() => max,
            _ => max.bound(Bound::ValueAtMost(millis(TTL + Duration::from_millis(150)))),
        };
        vec![RowSpec::new("takeover.p50", "ms"), max]
    }

    fn is_quick(&self) -> bool {
        false
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        if bench.store.address().is_none() {
            return Ok(Outcome::NotPossible("other processes cannot reach this store"));
        }
        let (mut figures, mut max) = (RowFigures::default(), 0.0_f64);
        for kill in 0..KILLS {
            eprintln!("takeover: kill {} of {KILLS}", kill + 1);
            // At different moments between two renewals, which are 667 ms apart.
            let after_renewal = Duration::from_millis(50) + Duration::from_millis(80) * kill;
            let taken = millis(take_over(bench, after_renewal).await?);
            max = taken.max(max);
            figures.value("takeover.p50", taken, None);
        }
        figures.value("takeover.max", max, None);
        Ok(Outcome::Measured(figures))
    }
}

async fn take_over(bench: &Bench, after_renewal: Duration) -> Result<Duration> {
    let name = "bench:takeover";
    let mut holder = DriverProcess::own(&*bench.store, TTL).await?;
    holder.handle(Request::Hold { name: name.to_owned() }).await?;

    let backend = CountingBackend::new(bench.store.backend()?);
    let mutex = backend.locks().mutex(name)?;
    let heir: JoinHandle<Result<Timestamp>> = tokio::spawn(async move {
        let guard = mutex.acquire_with(&AcquireOptions::new()).await?;
        let taken = Timestamp::now();
        guard.release().await?;
        Ok(taken)
    });
    backend.wait_for_entries(1).await;

    // Until when the holder may rely on its lock.
    let Response::Renewed { until_ns } = holder.handle(Request::NextRenewal {}).await? else {
        return Err("a driver does not tell when it renewed its lock".into());
    };
    let deadline = Timestamp(until_ns);
    sleep(after_renewal).await;
    let killed = Timestamp::now();
    holder.kill().await?;
    let taken =
        timeout(TTL * 5, heir).await.map_err(|_| "the lock of a killed holder was not taken over")???;
    if bench.store.kind().is_sqlite() {
        return Ok(taken.since(killed));
    }
    if taken < deadline {
        return Err("a lock was taken over before its holder had to stop".into());
    }
    // The deadline of the holder is the sending of its last renewal plus the ttl, less the margin.
    Ok(taken.since(deadline) + TTL.saturating_sub(margin(TTL)))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
