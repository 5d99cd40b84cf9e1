//! `pair`: acquire and release of a lock without contention, against the raw pair; and `PING`.

use async_trait::async_trait;

use super::{Bench, Bound, Figure, Measurement, Outcome, RowSpec};
use crate::{
    error::Result,
    samples::{Rounds, Samples},
    store::StoreKind,
    uncontended::{Stop, pairs},
};

pub(super) struct Pair;

/// Pairs in a slice, which takes some milliseconds. Floor and locks alternate slice by slice: whether client and server share
/// a core makes a factor of two, so that only slices that follow each other can be compared.
pub(super) const PAIRS: u64 = 100;

/// Slices in a round.
pub(super) const SLICES: u32 = 10;

#[async_trait]
impl Measurement for Pair {
    fn rows(&self, store: StoreKind) -> Vec<RowSpec> {
        let most = match store {
            store if store.is_etcd() => 1.1,
            store if store.is_zk() => 1.15,
            // A pair is two transactions, its floor is one.
            store if store.is_sqlite() => 4.0,
            _ => 1.25,
        };
        vec![
            RowSpec::new("ping.p50", "us"),
            RowSpec::new("ping.p99", "us"),
            RowSpec::new("pair.p50", "us").bound(Bound::RatioAtMost(most)),
            RowSpec::new("pair.p99", "us"),
        ]
    }

    fn is_quick(&self) -> bool {
        true
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        let lock = bench.locks.mutex("bench:pair")?;
        let floors = bench.store.floors().await?;
        // Connects, and loads the scripts.
        pairs(&lock, Stop::After(PAIRS)).await?;
        let (mut pings, mut raw, mut ours) = (Samples::default(), Samples::default(), Samples::default());
        let (mut ping, mut pair) = (Rounds::default(), Rounds::default());
        for _ in bench.rounds("pair") {
            for _ in 0..SLICES {
                let mut floor = None;
                if let Some(floors) = &floors {
                    let slice = floors.pings(Stop::After(PAIRS)).await?;
                    ping.push(slice.percentile(50.0), None);
                    pings.add(&slice);
                    let slice = floors.pairs("bench:raw", Stop::After(PAIRS)).await?;
                    floor = Some(slice.percentile(50.0));
                    raw.add(&slice);
                }
                let slice = pairs(&lock, Stop::After(PAIRS)).await?;
                pair.push(slice.percentile(50.0), floor);
                ours.add(&slice);
            }
        }
        let mut figures = vec![Figure::over("pair.p50", &pair), Figure::p99("pair.p99", &ours, &raw)];
        if floors.is_some() {
            figures.push(Figure::over("ping.p50", &ping));
            figures.push(Figure::p99("ping.p99", &pings, &Samples::default()));
        }
        Ok(Outcome::Measured(figures))
    }
}
