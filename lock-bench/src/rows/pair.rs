//! `pair`: acquire and release of a lock without contention, against the raw pair. `rival`: the same, against the lock of another
//! project on the same server. And `ping`.

use async_trait::async_trait;

use super::{Bench, Bound, Figure, Measurement, Outcome, RowSpec};
use crate::{
    drivers::{Driver, Floor, PairsTaken, protocol::Pairs},
    error::Result,
    samples::{Rounds, Samples},
    store::{Rival, Stop, StoreKind},
};

pub(super) struct Pair {
    group: &'static str,
    /// Instead of the raw pair.
    rival: Option<Rival>,
}

/// Pairs in a slice, which takes some milliseconds. Floor and locks alternate slice by slice: whether client and server share
/// a core makes a factor of two, so that only slices that follow each other can be compared.
const PAIRS: u64 = 100;

/// Slices in a round.
const SLICES: u32 = 10;

impl Pair {
    pub(super) const RAW: Self = Self { group: "pair", rival: None };
    pub(super) const BUILT_IN: Self = Self { group: "rival", rival: Some(Rival::BuiltIn) };
    pub(super) const CURATOR: Self = Self { group: "rival-curator", rival: Some(Rival::Curator) };

    fn row(&self, what: &str) -> String {
        format!("{}.{what}", self.group)
    }
}

#[async_trait]
impl Measurement for Pair {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec> {
        let p50 = |most| RowSpec::new(self.row("p50"), "us").bound(Bound::RatioAtMost(most));
        if self.rival.is_some() {
            return vec![p50(1.0)];
        }
        let most = match store {
            store if store.is_etcd() => 1.1,
            store if store.is_zk() => 1.15,
            // A pair is two transactions, its floor is one.
            store if store.is_sqlite() => 4.0,
            _ => 1.25,
        };
        let row = |name: &str| RowSpec::new(name, "us");
        vec![row("ping.p50"), row("ping.p99"), p50(most), row("pair.p99")]
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        let mut floor = Floor::connect(&bench.store, self.rival).await?;
        if floor.is_none() && self.rival.is_some() {
            return Ok(Outcome::NotPossible("there is no such lock on this store"));
        }
        let mut ours = bench.ours()?;
        // Connects, and loads the scripts.
        slice(&mut ours, "bench:pair").await?;
        let (mut all_pings, mut all_floors, mut all_ours) =
            (Samples::default(), Samples::default(), Samples::default());
        let (mut ping, mut pair) = (Rounds::default(), Rounds::default());
        for _ in bench.rounds(self.group) {
            for _ in 0..SLICES {
                let mut median = None;
                if let Some(floor) = &mut floor {
                    if self.rival.is_none() {
                        let pings = floor.pings(Stop::After(PAIRS)).await?;
                        ping.push(pings.percentile(50.0), None);
                        all_pings.add(&pings);
                    }
                    let floors = slice(floor, "bench:raw").await?;
                    median = Some(floors.percentile(50.0));
                    all_floors.add(&floors);
                }
                let ours = slice(&mut ours, "bench:pair").await?;
                pair.push(ours.percentile(50.0), median);
                all_ours.add(&ours);
            }
        }
        let mut figures = vec![
            Figure::over(self.row("p50"), &pair),
            Figure::p99(self.row("p99"), &all_ours, &all_floors),
        ];
        if !ping.is_empty() {
            figures.push(Figure::over("ping.p50", &ping));
            figures.push(Figure::p99("ping.p99", &all_pings, &Samples::default()));
        }
        Ok(Outcome::Measured(figures))
    }
}

async fn slice(driver: &mut dyn Driver, name: &str) -> Result<Samples> {
    let pairs = Pairs { name: name.to_owned(), tasks: 1, run_ms: 0, count: PAIRS };
    Ok(PairsTaken::ask(driver, pairs).await?.latencies)
}
