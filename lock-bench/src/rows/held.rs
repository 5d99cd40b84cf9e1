//! `held`: what many held locks cost: CPU time and memory of the client, and CPU time of the server.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::time::sleep;

use super::{Bench, Bound, Measurement, Outcome, RowFigures, RowSpec};
use crate::{
    drivers::{
        Driver, DriverProcess,
        protocol::{Request, Response},
    },
    error::Result,
    store::StoreKind,
    usage::Usage,
};

pub(super) struct Held;

const LOCKS: [usize; 2] = [10_000, 100_000];

const TTL: Duration = Duration::from_secs(30);

/// Two ttls: each lock is renewed six times.
const PERIOD: Duration = Duration::from_secs(60);

#[async_trait]
impl Measurement for Held {
    fn rows(&self, _: StoreKind) -> Vec<RowSpec> {
        let rows = |locks| {
            let group = group(locks);
            let bounded = |row, unit, bound| {
                RowSpec::new(format!("{group}.{row}"), unit).bound(Bound::ValueAtMost(bound))
            };
            [
                bounded("client", "% of core", 15.0),
                bounded("memory", "bytes/lock", 1024.0),
                bounded("lost", "locks", 0.0),
                RowSpec::new(format!("{group}.server"), "% of core"),
            ]
        };
        LOCKS.into_iter().flat_map(rows).collect()
    }

    fn is_quick(&self) -> bool {
        false
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        let Some(server) = bench.store.server_pid() else {
            return Ok(Outcome::NotPossible("the store has no process of its own"));
        };
        let mut figures = RowFigures::default();
        for locks in LOCKS {
            if bench.plan.wants(&group(locks)) {
                keep(bench, server, locks, &mut figures).await?;
            }
        }
        Ok(Outcome::Measured(figures))
    }
}

fn group(locks: usize) -> String {
    format!("held.{locks}")
}

/// Holds the locks in a process that does nothing else, so that all it uses is for these locks.
async fn keep(bench: &Bench, server: u32, locks: usize, figures: &mut RowFigures) -> Result<()> {
    let group = group(locks);
    eprintln!("{group}: {PERIOD:?}");
    let mut holder = DriverProcess::own(&*bench.store, TTL).await?;
    let keep = |count| Request::Keep { name: "bench:held".to_owned(), count };
    // Connects, and starts the threads that all locks share.
    holder.handle(keep(64)).await?;
    holder.handle(Request::GiveBack {}).await?;
    let empty = used(&holder)?;

    holder.handle(keep(locks)).await?;
    let started = Instant::now();
    let before = (used(&holder)?, Usage::of(server)?);
    let mut most = before.0.memory;
    while started.elapsed() < PERIOD {
        sleep(Duration::from_millis(100)).await;
        most = most.max(used(&holder)?.memory);
    }
    let elapsed = started.elapsed();
    let after = (used(&holder)?, Usage::of(server)?);
    let Response::Done { lost } = holder.handle(Request::GiveBack {}).await? else {
        return Err("a driver does not tell how many locks it lost".into());
    };

    let percent = |before: Usage, after: Usage| {
        100.0 * (after.cpu.saturating_sub(before.cpu)).as_secs_f64() / elapsed.as_secs_f64()
    };
    let memory = most.saturating_sub(empty.memory) as f64 / locks as f64;
    let mut put = |row: &str, value: f64| figures.value(format!("{group}.{row}"), value, None);
    put("client", percent(before.0, after.0));
    put("memory", memory);
    put("lost", lost as f64);
    put("server", percent(before.1, after.1));
    Ok(())
}

fn used(holder: &DriverProcess) -> Result<Usage> {
    Usage::of(holder.pid().ok_or("a holder ended")?)
}
