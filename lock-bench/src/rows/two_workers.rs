//! `two-workers`: what `throughput` measures, on a runtime with two worker threads; and the CPU time that a pair costs the client and the
//! server, against that of a raw pair.

use std::process;

use async_trait::async_trait;
use tokio::runtime;

use super::{Bench, Measurement, Outcome, Plan, RowFigures, RowSpec};
use crate::{
    drivers::{Driver, Floor, PairsTaken, protocol::Pairs},
    error::Result,
    store::StoreKind,
    usage::Usage,
};

pub(super) struct TwoWorkers;

const TASKS: [usize; 2] = [64, 256];

#[async_trait]
impl Measurement for TwoWorkers {
    fn rows(&self, _: StoreKind) -> Vec<RowSpec> {
        let rows = |tasks| {
            let group = group(tasks);
            [("pairs", "pairs/s"), ("client", "us"), ("server", "us")]
                .map(|(row, unit)| RowSpec::new(format!("{group}.{row}"), unit))
        };
        TASKS.into_iter().flat_map(rows).collect()
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        let Some(server) = bench.store.server_pid() else {
            return Ok(Outcome::NotPossible("the store has no process of its own"));
        };
        let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let bench = bench.clone();
        // The connections are opened there as well, so that their tasks run there.
        let measured = runtime.spawn(async move { measure_all(&bench, server).await }).await;
        // Dropping a runtime is not allowed here.
        runtime.shutdown_background();
        Ok(Outcome::Measured(measured??))
    }
}

fn group(tasks: usize) -> String {
    format!("two-workers.{tasks}")
}

async fn measure_all(bench: &Bench, server: u32) -> Result<RowFigures> {
    let (mut floor, mut ours) = (Floor::connect(&bench.store, None).await?, bench.ours()?);
    let mut figures = RowFigures::default();
    for tasks in TASKS {
        if bench.plan.wants(&group(tasks)) {
            measure(bench, server, &mut floor, &mut ours, tasks, &mut figures).await?;
        }
    }
    Ok(figures)
}

async fn measure(
    bench: &Bench,
    server: u32,
    floor: &mut Option<Floor>,
    ours: &mut dyn Driver,
    tasks: usize,
    figures: &mut RowFigures,
) -> Result<()> {
    let group = group(tasks);
    // Connects, and creates the names.
    Cost::of(ours, "bench:two-workers", tasks, 10, server).await?;
    for round in bench.rounds(&group) {
        let mut raw = None;
        // Alternately one or the other is first.
        let is_floor_first = round % 2 == 0;
        if let Some(floor) = floor.as_mut().filter(|_| is_floor_first) {
            raw = Some(Cost::of(floor, "bench:raw", tasks, 0, server).await?);
        }
        let own = Cost::of(ours, "bench:two-workers", tasks, 0, server).await?;
        if let Some(floor) = floor.as_mut().filter(|_| !is_floor_first) {
            raw = Some(Cost::of(floor, "bench:raw", tasks, 0, server).await?);
        }
        let mut put = |row: &str, figure: fn(&Cost) -> f64| {
            figures.value(format!("{group}.{row}"), figure(&own), raw.as_ref().map(figure));
        };
        put("pairs", |cost| cost.per_s);
        put("client", |cost| cost.client_us);
        put("server", |cost| cost.server_us);
    }
    Ok(())
}

/// What pairs of many tasks cost.
struct Cost {
    per_s: f64,
    /// The CPU time of a pair, in microseconds.
    client_us: f64,
    server_us: f64,
}

impl Cost {
    /// For a round; or with a `count`, so many pairs of each task.
    async fn of(driver: &mut dyn Driver, name: &str, tasks: usize, count: u64, server: u32) -> Result<Self> {
        let run_ms = Plan::LONG_ROUND.as_millis() as u64;
        let used = || -> Result<_> { Ok((Usage::of(process::id())?, Usage::of(server)?)) };
        let before = used()?;
        let taken = PairsTaken::ask(driver, Pairs { name: name.to_owned(), tasks, run_ms, count }).await?;
        let after = used()?;
        let each = |before: Usage, after: Usage| {
            after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / taken.count.max(1) as f64
        };
        Ok(Self {
            per_s: taken.per_s,
            client_us: each(before.0, after.0),
            server_us: each(before.1, after.1),
        })
    }
}
