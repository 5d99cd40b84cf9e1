//! `throughput`: pairs per second of many tasks, each on a lock of its own, against raw pairs of as many tasks.

use std::{future::Future, sync::Arc, time::Instant};

use async_trait::async_trait;
use tokio::task::JoinSet;

use super::{Bench, Bound, Figure, Measurement, Outcome, Plan, RowSpec};
use crate::{
    error::Result,
    samples::{Rounds, Samples},
    store::{Floors, StoreKind},
    uncontended::{Stop, pairs},
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

    fn is_quick(&self) -> bool {
        true
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        let floors = bench.store.floors().await?;
        let mut figures = Vec::new();
        for tasks in TASKS {
            let row = name(tasks);
            if bench.plan.wants(&row) {
                figures.push(Figure::over(&row, &measure(bench, floors.clone(), tasks).await?));
            }
        }
        Ok(Outcome::Measured(figures))
    }
}

fn name(tasks: usize) -> String {
    format!("throughput.{tasks}")
}

async fn measure(bench: &Bench, floors: Option<Arc<dyn Floors>>, tasks: usize) -> Result<Rounds> {
    let raw = |i: usize, stop| {
        let floors = floors.clone();
        async move {
            match floors {
                Some(floors) => floors.pairs(&format!("bench:raw:{i}"), stop).await,
                None => Ok(Samples::default()),
            }
        }
    };
    let ours = |i: usize, stop| {
        let lock = bench.locks.mutex(format!("bench:throughput:{i}"));
        async move { pairs(&lock?, stop).await }
    };
    // Connects, and creates the names.
    run(tasks, |i| ours(i, Stop::After(10))).await?;
    let mut rounds = Rounds::default();
    for round in bench.rounds(&name(tasks)) {
        let stop = || Stop::At(Instant::now() + Plan::ROUND);
        let (mut floor, mut value) = (None, 0.0);
        // Alternately one or the other is first.
        for turn in [round % 2, (round + 1) % 2] {
            let stop = stop();
            if turn == 1 {
                value = run(tasks, |i| ours(i, stop)).await?;
            } else if floors.is_some() {
                floor = Some(run(tasks, |i| raw(i, stop)).await?);
            }
        }
        rounds.push(value, floor);
    }
    Ok(rounds)
}

/// Pairs per second of so many tasks.
async fn run<F>(tasks: usize, work: impl Fn(usize) -> F) -> Result<f64>
where
    F: Future<Output = Result<Samples>> + Send + 'static,
{
    let started = Instant::now();
    let mut running: JoinSet<_> = (0..tasks).map(work).collect();
    let mut pairs = 0;
    while let Some(samples) = running.join_next().await {
        pairs += samples??.len();
    }
    Ok(pairs as f64 / started.elapsed().as_secs_f64())
}
