//! `rival`: the same pair, against the lock that the server itself has.

use async_trait::async_trait;

use super::{Bench, Bound, Figure, Measurement, Outcome, RowSpec};
use crate::{
    Result,
    args::StoreKind,
    samples::Rounds,
    uncontended::{Stop, pairs},
};

pub(super) struct Rival;

/// As for the pair.
const PAIRS: u64 = 100;
const SLICES: u32 = 10;

#[async_trait]
impl Measurement for Rival {
    fn rows(&self, _: StoreKind) -> Vec<RowSpec> {
        vec![RowSpec::new("rival.p50", "us").bound(Bound::RatioAtMost(1.0))]
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
        for _ in bench.rounds("rival") {
            for _ in 0..SLICES {
                let Some(theirs) = floors.rival("bench:rival", Stop::After(PAIRS)).await? else {
                    return Ok(Outcome::NotPossible("this server has no lock of its own"));
                };
                let ours = pairs(&lock, Stop::After(PAIRS)).await?;
                rounds.push(ours.percentile(50.0), Some(theirs.percentile(50.0)));
            }
        }
        Ok(Outcome::Measured(vec![Figure::over("rival.p50", &rounds)]))
    }
}
