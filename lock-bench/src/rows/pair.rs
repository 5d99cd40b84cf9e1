//! `pair`: acquire and release of a lock without contention, against the raw pair. `rival`: the same, against the lock of another
//! project on the same server. And `ping`.

use async_trait::async_trait;

use super::{Bench, Bound, Measurement, Outcome, RowFigures, RowSpec};
use crate::{
    drivers::{Driver, Floor, PairsTaken, protocol::Pairs},
    error::Result,
    samples::Samples,
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
}

#[async_trait]
impl Measurement for Pair {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec> {
        let p50 = |most| RowSpec::new(format!("{}.p50", self.group), "us").bound(Bound::RatioAtMost(most));
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
        let mut figures = RowFigures::default();
        for _ in bench.rounds(self.group) {
            for _ in 0..SLICES {
                let mut bare = None;
                if let Some(floor) = &mut floor {
                    if self.rival.is_none() {
                        figures.latencies("ping", &floor.pings(Stop::After(PAIRS)).await?, None);
                    }
                    bare = Some(slice(floor, "bench:raw").await?);
                }
                let ours = slice(&mut ours, "bench:pair").await?;
                figures.latencies(self.group, &ours, bare.as_ref());
            }
        }
        Ok(Outcome::Measured(figures))
    }
}

async fn slice(driver: &mut dyn Driver, name: &str) -> Result<Samples> {
    let pairs = Pairs { name: name.to_owned(), tasks: 1, run_ms: 0, count: PAIRS };
    Ok(PairsTaken::ask(driver, pairs).await?.latencies)
}
