//! `held`: what many held locks cost: CPU time and memory of the client, and CPU time of the server.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::time::sleep;

use super::{Bench, Bound, Figure, Measurement, Outcome, RowSpec};
use crate::{
    error::Result,
    store::StoreKind,
    usage::Usage,
    worker::{Command, Reply},
    worker_process::WorkerProcess,
};

pub(super) struct Held;

const LOCKS: [u64; 2] = [10_000, 100_000];

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
        let mut figures = Vec::new();
        for locks in LOCKS {
            if bench.plan.wants(&group(locks)) {
                figures.extend(keep(bench, server, locks).await?);
            }
        }
        Ok(Outcome::Measured(figures))
    }
}

fn group(locks: u64) -> String {
    format!("held.{locks}")
}

/// Holds the locks in a process that does nothing else, so that all it uses is for these locks.
async fn keep(bench: &Bench, server: u32, locks: u64) -> Result<Vec<Figure>> {
    let group = group(locks);
    eprintln!("{group}: {PERIOD:?}");
    let mut holder = WorkerProcess::start(&*bench.store)?;
    // Connects, and starts the threads that all locks share.
    holder.ask(&Command::Keep { locks: 64, ttl: TTL }).await?;
    holder.ask(&Command::GiveBack).await?;
    let empty = Usage::of(holder.pid()?)?;

    holder.ask(&Command::Keep { locks, ttl: TTL }).await?;
    let started = Instant::now();
    let before = (Usage::of(holder.pid()?)?, Usage::of(server)?);
    let mut most = before.0.memory;
    while started.elapsed() < PERIOD {
        sleep(Duration::from_millis(100)).await;
        most = most.max(Usage::of(holder.pid()?)?.memory);
    }
    let elapsed = started.elapsed();
    let after = (Usage::of(holder.pid()?)?, Usage::of(server)?);
    let Reply::GivenBack { lost } = holder.ask(&Command::GiveBack).await? else {
        return Err("a worker does not tell how many locks it lost".into());
    };

    let percent = |before: Usage, after: Usage| {
        100.0 * (after.cpu.saturating_sub(before.cpu)).as_secs_f64() / elapsed.as_secs_f64()
    };
    let memory = most.saturating_sub(empty.memory) as f64 / locks as f64;
    Ok(vec![
        Figure::plain(format!("{group}.client"), percent(before.0, after.0)),
        Figure::plain(format!("{group}.memory"), memory),
        Figure::plain(format!("{group}.lost"), lost as f64),
        Figure::plain(format!("{group}.server"), percent(before.1, after.1)),
    ])
}
