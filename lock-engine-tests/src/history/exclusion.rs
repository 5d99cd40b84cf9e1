//! M1: the clients that believe at the same time that they hold a lock fit its limit.

use std::collections::BTreeMap;

use lock_core::BootTime;

use super::{
    acquisition::Acquisition,
    event::Op,
    timeline::{History, Violation},
};

/// Sweeps over the times at which guards were returned, and at which their holders stopped believing that they hold the lock.
#[must_use]
pub fn check(_: &History, acquisitions: &[Acquisition]) -> Vec<Violation> {
    let mut names: BTreeMap<&str, Vec<(BootTime, bool, &Acquisition)>> = BTreeMap::new();
    for acquisition in acquisitions {
        let Some((from, hold)) = acquisition.hold() else { continue };
        let until = hold.believed_until.unwrap_or(BootTime::FAR_FUTURE);
        if from < until {
            let turns = names.entry(&acquisition.name).or_default();
            turns.push((until, false, acquisition));
            turns.push((from, true, acquisition));
        }
    }
    names.into_values().flat_map(sweep).collect()
}

fn sweep(mut turns: Vec<(BootTime, bool, &Acquisition)>) -> Vec<Violation> {
    // At the same instant, ends come before beginnings.
    turns.sort_by_key(|(at, begins, acquisition)| (*at, *begins, acquisition.op));
    let mut holders: BTreeMap<Op, u64> = BTreeMap::new();
    let mut violations = Vec::new();
    for (at, begins, acquisition) in turns {
        if !begins {
            holders.remove(&acquisition.op);
            continue;
        }
        holders.insert(acquisition.op, acquisition.claim.permits().into());
        let held: u64 = holders.values().sum();
        if held > u64::from(acquisition.claim.limit()) {
            let ops: Vec<_> = holders.keys().map(ToString::to_string).collect();
            let at = super::event::instant(at);
            let what = format!("`{}` is held by {} together at {at}", acquisition.name, ops.join(", "));
            violations.push(Violation::new("M1", what));
        }
    }
    violations
}
