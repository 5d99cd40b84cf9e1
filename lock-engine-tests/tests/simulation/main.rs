//! Seeded runs of the real engine: 500 here, more by `SEEDS=10000`, `SEEDS=10000 FROM=5000` or `SEEDS=5000..9000`.

mod bugs;
mod totals;
mod volume;

use std::time::Instant;

use lock_engine_tests::{
    history::Outcome,
    simulation::{self, Bug, Report},
};

use crate::{
    bugs::FOUND_WITHIN,
    volume::{run_all, seeds},
};

/// It keeps all cores busy for seconds.
mod alone {
    use super::*;

    #[test]
    fn no_seed_breaks_a_promise() {
        let seeds = seeds();
        let (count, started) = (seeds.end.saturating_sub(seeds.start), Instant::now());
        let totals = run_all(&seeds);
        println!("seeds {seeds:?}, in {:?}: {totals}", started.elapsed());
        // A workload without these tests nothing.
        if count >= 500 {
            let rare = totals.rare_events(20);
            assert!(rare.is_empty(), "rare or missing: {rare:?}\n{totals}");
            assert!(2 * totals.pairs_reached > totals.aims, "the aims are seldom reached\n{totals}");
            let missing = totals.coverage.missing_pairs();
            assert!(missing.is_empty(), "verbs that have not met a fault: {missing:?}\n{totals}");
        }
    }
}

/// A try that found its own former entry in the way, and an entry that a client could not remove while it stood still. Both seeds have no
/// aim, so they give the runs that were found.
#[test]
fn seeds_that_have_found_something_find_nothing_any_more() {
    for seed in [848_214, 1_971_783] {
        let report = simulation::run(seed);
        assert_eq!(report.aim, None, "seed {seed}");
        assert!(report.violations.is_empty(), "{report}");
    }
}

#[test]
fn a_seed_gives_the_same_history_every_time() {
    for seed in 0..40 {
        assert_eq!(simulation::run(seed), simulation::run(seed), "seed {seed}");
    }
}

#[test]
fn a_report_shows_the_timeline_the_violations_and_how_to_repeat_the_run() {
    let mut reports = (0..FOUND_WITHIN).map(|seed| simulation::run_with_bug(seed, Bug::TokensSwapped));
    let finds = |report: &Report| report.violations.iter().any(|violation| violation.id == "M2");
    let report = reports.find(finds).expect("it is found");
    let text = report.to_string();
    let line = |at: usize| text.lines().nth(at).unwrap_or_default().to_owned();
    assert!(line(0).starts_with(" 1000."), "{}", line(0));
    assert_eq!(text.lines().take_while(|line| !line.is_empty()).count(), report.history.events.len());
    assert!(text.contains("\nM2: "), "{text}");
    assert!(text.trim_end().ends_with(&format!("SEEDS={}..{}", report.seed, report.seed + 1)), "{text}");
}

#[test]
fn seeds_differ() {
    assert_ne!(simulation::run(1).history, simulation::run(2).history);
}

#[test]
fn after_the_faults_everybody_is_granted() {
    for seed in 0..40 {
        let history = simulation::run(seed).history;
        let pending = history.acquisitions().into_iter().filter(|a| a.outcome == Outcome::Pending).count();
        assert_eq!(pending, 0, "seed {seed}");
        let granted = history
            .acquisitions()
            .iter()
            .filter(|a| a.invoked >= history.calm() && a.hold().is_some())
            .count();
        assert!(granted > 0, "seed {seed}");
    }
}
