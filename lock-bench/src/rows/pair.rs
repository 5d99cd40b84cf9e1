//! `pair`: acquire and release of a lock that nobody else wants, against the raw pair; and `PING`.

use async_trait::async_trait;

use super::{Bench, Bound, Figure, Measurement, Outcome, RowSpec};
use crate::{
    Result,
    samples::{Rounds, Samples},
    uncontended::{Stop, pairs},
};

pub(super) struct Pair;

/// Pairs in a row, before it is the floor's turn. Short, so that drift hits both alike.
const SLICE: u64 = 100;

#[async_trait]
impl Measurement for Pair {
    fn rows(&self) -> Vec<RowSpec> {
        vec![
            RowSpec::new("ping.p50", "us"),
            RowSpec::new("ping.p99", "us"),
            RowSpec::new("pair.p50", "us").bound(Bound::RatioAtMost(1.25)),
            RowSpec::new("pair.p99", "us"),
        ]
    }

    fn is_quick(&self) -> bool {
        true
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        let lock = bench.locks.mutex("bench:pair")?;
        let mut floors = bench.store.floors().await?;
        let slices = if bench.plan.is_quick() { 10 } else { 25 };
        // Connects, and loads the scripts.
        pairs(&lock, Stop::After(SLICE)).await?;
        let (mut p50, mut p99) = (Rounds::default(), Rounds::default());
        let (mut ping50, mut ping99) = (Rounds::default(), Rounds::default());
        for _ in bench.rounds("pair") {
            let (mut pings, mut raw, mut ours) = (Samples::new(), Samples::new(), Samples::new());
            for _ in 0..slices {
                if let Some(floors) = &mut floors {
                    pings.add(&floors.pings(Stop::After(SLICE / 2)).await?);
                    raw.add(&floors.pairs("bench:raw", Stop::After(SLICE)).await?);
                }
                ours.add(&pairs(&lock, Stop::After(SLICE)).await?);
            }
            let floor = |percent| (raw.len() > 0).then(|| raw.percentile(percent));
            p50.push(ours.percentile(50.0), floor(50.0));
            p99.push(ours.percentile(99.0), floor(99.0));
            if floors.is_some() {
                ping50.push(pings.percentile(50.0), None);
                ping99.push(pings.percentile(99.0), None);
            }
        }
        let mut figures = vec![Figure::over("pair.p50", &p50), Figure::over("pair.p99", &p99)];
        if floors.is_some() {
            figures.extend([Figure::over("ping.p50", &ping50), Figure::over("ping.p99", &ping99)]);
        }
        Ok(Outcome::Measured(figures))
    }
}
