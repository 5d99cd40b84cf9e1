//! `throughput`: pairs per second of many tasks, each on a lock of its own, against raw pairs of as many tasks.

use async_trait::async_trait;

use super::{Bench, Bound, Measurement, Outcome, Plan, RowFigures, RowSpec};
use crate::{
    drivers::{Driver, Floor, PairsTaken, protocol::Pairs},
    error::Result,
    store::StoreKind,
};

pub(super) struct Throughput;

const TASKS: [usize; 4] = [1, 16, 64, 256];

#[async_trait]
impl Measurement for Throughput {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec> {
        // SQLite has one writer at a time, and a pair is two transactions while its floor is one.
        let least = if store.is_sqlite() { 0.25 } else { 0.35 };
        let row = |tasks| {
            let row = RowSpec::new(name(tasks), "pairs/s");
            if tasks == 64 { row.bound(Bound::RatioAtLeast(least)) } else { row }
        };
        TASKS.map(row).into()
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        let (mut floor, mut ours) = (Floor::connect(&bench.store, None).await?, bench.ours()?);
        let mut figures = RowFigures::default();
        for tasks in TASKS {
            if bench.plan.wants(&name(tasks)) {
                measure(bench, &mut floor, &mut ours, tasks, &mut figures).await?;
            }
        }
        Ok(Outcome::Measured(figures))
    }
}

fn name(tasks: usize) -> String {
    format!("throughput.{tasks}")
}

async fn measure(
    bench: &Bench,
    floor: &mut Option<Floor>,
    ours: &mut dyn Driver,
    tasks: usize,
    figures: &mut RowFigures,
) -> Result<()> {
    let pairs = |name: &str, count| Pairs {
        name: name.to_owned(),
        tasks,
        run_ms: Plan::ROUND.as_millis() as u64,
        count,
    };
    // Connects, and creates the names.
    PairsTaken::ask(ours, pairs("bench:throughput", 10)).await?;
    for round in bench.rounds(&name(tasks)) {
        let (mut raw, mut value) = (None, 0.0);
        // Alternately one or the other is first.
        for turn in [round % 2, (round + 1) % 2] {
            if turn == 1 {
                value = PairsTaken::ask(ours, pairs("bench:throughput", 0)).await?.per_s;
            } else if let Some(floor) = floor {
                raw = Some(PairsTaken::ask(floor, pairs("bench:raw", 0)).await?.per_s);
            }
        }
        figures.value(name(tasks), value, raw);
    }
    Ok(())
}
