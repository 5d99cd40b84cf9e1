//! Seeded runs of the real engine: 500 here, more by `SEEDS=10000` or `SEEDS=5000..9000`.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Instant,
};

use lock_engine_tests::{
    history::{EventKind, Outcome},
    simulation::{self, Bug},
};

/// The number of seeds within which each bug has to be found.
const FOUND_WITHIN: u64 = 500;

/// The range of seeds in `SEEDS`: `n` stands for the first n, `from..to` for a range.
fn seeds() -> (u64, u64) {
    let Ok(text) = std::env::var("SEEDS") else { return (0, 500) };
    let number =
        |text: &str| text.trim().parse().unwrap_or_else(|_| panic!("SEEDS is n or from..to, not {text:?}"));
    match text.split_once("..") {
        Some((from, to)) => (number(from), number(to)),
        None => (0, number(&text)),
    }
}

fn run_seeds(next: &AtomicU64, to: u64) -> Seen {
    let mut happened = Seen::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= to {
            return happened;
        }
        let named = Named(seed);
        let report = simulation::run(seed);
        drop(named);
        if !report.violations.is_empty() {
            // The other threads need not continue.
            next.store(to, Ordering::Relaxed);
            panic!("the events of the run, in their order:\n{report}");
        }
        happened.add(&report);
    }
}

/// Prints the seed of a run that panics.
struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("that was seed {0}; alone: SEEDS={0}..{1}", self.0, self.0 + 1);
        }
    }
}

/// How often things happened.
#[derive(Debug, Default)]
struct Seen(BTreeMap<&'static str, u64>);

impl Seen {
    fn add(&mut self, report: &simulation::Report) {
        for event in &report.history.events {
            let what = match event.what {
                EventKind::Granted { .. } => "granted",
                EventKind::Refused { .. } => "refused",
                EventKind::TimedOut { .. } => "timed out",
                EventKind::Cancelled { .. } => "cancelled",
                EventKind::Failed { .. } => "failed",
                EventKind::Lost { .. } => "lost",
                EventKind::Evicted { .. } => "evicted",
                EventKind::Crashed { .. } => "crashed",
                EventKind::Blocked { .. } => "blocked",
                _ => continue,
            };
            *self.0.entry(what).or_default() += 1;
        }
    }

    fn join(&mut self, other: &Self) {
        for (what, n) in &other.0 {
            *self.0.entry(what).or_default() += n;
        }
    }
}

/// It keeps all cores busy for seconds.
mod alone {
    use super::*;

    #[test]
    fn no_seed_breaks_a_promise() {
        let (from, to) = seeds();
        let started = Instant::now();
        let next = AtomicU64::new(from);
        let threads = thread::available_parallelism().map_or(1, Into::into);
        let mut all = Seen::default();
        thread::scope(|scope| {
            let runners: Vec<_> = (0..threads).map(|_| scope.spawn(|| run_seeds(&next, to))).collect();
            for runner in runners {
                all.join(&runner.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
        println!("seeds {from}..{to} in {:?}: {:?}", started.elapsed(), all.0);
        // A workload without these events tests nothing.
        if to - from >= 500 {
            for what in [
                "granted",
                "refused",
                "timed out",
                "cancelled",
                "failed",
                "lost",
                "evicted",
                "crashed",
                "blocked",
            ] {
                assert!(all.0.get(what).is_some_and(|&n| n > 20), "{what}: {:?}", all.0);
            }
        }
    }
}

/// A try that found its own former entry in the way, and an entry that a client could not remove while it stood still.
#[test]
fn seeds_that_have_found_something_find_nothing_any_more() {
    for seed in [848_214, 1_971_783] {
        let report = simulation::run(seed);
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
    let report = (0..FOUND_WITHIN).map(|seed| simulation::run_with_bug(seed, Bug::TokensSwapped));
    let report = report.into_iter().find(|report| !report.violations.is_empty()).expect("it is found");
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

fn is_found(bug: Bug) {
    let found = (0..FOUND_WITHIN).find_map(|seed| {
        let report = simulation::run_with_bug(seed, bug);
        report.violations.first().map(|violation| (seed, violation.to_string()))
    });
    let (seed, violation) = found.unwrap_or_else(|| panic!("{bug:?} is not found in {FOUND_WITHIN} seeds"));
    println!("{bug:?} is found by seed {seed}: {violation}");
}

#[test]
fn deadlines_counted_from_the_reply_are_found() {
    is_found(Bug::DeadlineFromReply);
}

#[test]
fn an_enter_that_refreshes_nothing_is_found() {
    is_found(Bug::EnterRefreshesNothing);
}

#[test]
fn a_renewal_that_checks_nothing_is_found() {
    is_found(Bug::RenewChecksNothing);
}

#[test]
fn a_store_that_tells_nobody_is_found() {
    is_found(Bug::NobodyIsHinted);
}

#[test]
fn a_hint_that_is_trusted_for_another_life_is_found() {
    is_found(Bug::HintOfAnyLife);
}

#[test]
fn a_leave_that_does_nothing_is_found() {
    is_found(Bug::NobodyLeaves);
}

#[test]
fn tokens_in_the_wrong_order_are_found() {
    is_found(Bug::TokensSwapped);
}

#[test]
fn permits_that_are_not_counted_are_found() {
    is_found(Bug::EveryoneIsSmall);
}

#[test]
fn a_refusal_of_a_free_lock_is_found() {
    is_found(Bug::RefusesUnseen);
}
