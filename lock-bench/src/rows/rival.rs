//! `rival`: the same pair, against the lock of another project on the same server.

use async_trait::async_trait;

use super::{
    Bench, Bound, Figure, Measurement, Outcome, RowSpec,
    pair::{PAIRS, SLICES},
};
use crate::{
    error::Result,
    samples::Rounds,
    store::{Rival, StoreKind},
    uncontended::{Stop, pairs},
};

pub(super) struct RivalPair {
    row: &'static str,
    rival: Rival,
}

impl RivalPair {
    pub(super) const BUILT_IN: Self = Self { row: "rival.p50", rival: Rival::BuiltIn };
    pub(super) const CURATOR: Self = Self { row: "rival-curator.p50", rival: Rival::Curator };
}

#[async_trait]
impl Measurement for RivalPair {
    fn rows(&self, _: StoreKind) -> Vec<RowSpec> {
        vec![RowSpec::new(self.row, "us").bound(Bound::RatioAtMost(1.0))]
    }

    fn is_quick(&self) -> bool {
        true
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        let lock = bench.locks.mutex("bench:pair")?;
        let Some(floors) = bench.store.floors().await? else {
            return Ok(Outcome::NotPossible("this store has no server"));
        };
        // Connects.
        pairs(&lock, Stop::After(PAIRS)).await?;
        let mut rounds = Rounds::default();
        for _ in bench.rounds(self.row) {
            for _ in 0..SLICES {
                let Some(theirs) = floors.rival(self.rival, "bench:rival", Stop::After(PAIRS)).await? else {
                    return Ok(Outcome::NotPossible("there is no such lock on this store"));
                };
                let ours = pairs(&lock, Stop::After(PAIRS)).await?;
                rounds.push(ours.percentile(50.0), Some(theirs.percentile(50.0)));
            }
        }
        Ok(Outcome::Measured(vec![Figure::over(self.row, &rounds)]))
    }
}
