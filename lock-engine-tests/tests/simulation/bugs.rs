//! Each bug of the simulation is found, and after how many seeds. Those that have a number in `docs/bug-bank.md` are in `tests/bug_bank`.

use std::{
    collections::BTreeMap,
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use lock_engine_tests::simulation::{self, Bug, Report};

/// The number of seeds within which each bug has to be found.
pub(crate) const FOUND_WITHIN: u64 = 500;

/// From where the search for a bug is begun, to learn what is luck.
const STARTS: [u64; 9] = [0, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000];

/// The most seeds that a search from one start may need.
const LONGEST: u64 = 20 * FOUND_WITHIN;

/// The first seed from `start` on that finds a bug, and how many were run.
fn search(bug: Bug, start: u64, most: u64) -> Option<(u64, Report)> {
    let mut reports = (1..=most).map(|ran| (ran, simulation::run_with_bug(start + ran - 1, bug)));
    reports.find(|(_, report)| !report.violations.is_empty())
}

fn is_found(bug: Bug) {
    let found = search(bug, 0, FOUND_WITHIN);
    let (ran, report) = found.unwrap_or_else(|| panic!("{bug:?} is not found in {FOUND_WITHIN} seeds"));
    println!("{bug:?} is found after {ran} seeds: {}", report.violations[0]);
}

/// What the searches for a bug needed.
struct Searches {
    bug: Bug,
    /// The number of seeds from each start, in ascending order.
    needed: Vec<u64>,
    /// What the longest search has found.
    last: Option<Report>,
    /// How many searches each checker has ended.
    checkers: BTreeMap<&'static str, u32>,
}

impl Searches {
    fn of(bug: Bug) -> Self {
        let mut searches = Self { bug, needed: Vec::new(), last: None, checkers: BTreeMap::new() };
        for start in STARTS {
            // A search that finds nothing counts as longer than any.
            let found = search(bug, start, LONGEST);
            let (needed, report) = found.map_or((u64::MAX, None), |(ran, report)| (ran, Some(report)));
            if let Some(report) = &report {
                *searches.checkers.entry(report.violations[0].id).or_default() += 1;
            }
            if searches.needed.iter().all(|other| *other < needed) {
                searches.last = report;
            }
            searches.needed.push(needed);
        }
        searches.needed.sort_unstable();
        searches
    }

    fn median(&self) -> u64 {
        self.needed[self.needed.len() / 2]
    }

    fn longest(&self) -> u64 {
        self.needed[self.needed.len() - 1]
    }
}

/// A row of the table in `docs/trust.md`.
impl fmt::Display for Searches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checkers: Vec<_> = self.checkers.iter().map(|(id, times)| format!("{id} ({times})")).collect();
        let shortest = self.needed[0];
        write!(f, "| {:?} | {} | ", self.bug, checkers.join(", "))?;
        write!(f, "{shortest} | {} | {} | ", self.median(), self.longest())?;
        match &self.last {
            Some(Report { seed, aim: Some(aim), .. }) => {
                let (verb, fault, state) = (aim.verb.name(), aim.fault.name(), aim.state.name());
                write!(f, "{seed}, which aims at {verb}, {fault}, {state} |")
            }
            Some(Report { seed, .. }) => write!(f, "{seed}, without an aim |"),
            None => write!(f, "none |"),
        }
    }
}

/// Prints the table of `docs/trust.md`.
#[test]
#[ignore = "nightly: it searches for each bug from nine starts"]
fn every_bug_is_found_from_every_start() {
    let next = AtomicUsize::new(0);
    let threads = thread::available_parallelism().map_or(1, Into::into);
    let mut all: Vec<(usize, Searches)> = thread::scope(|scope| {
        let some = || {
            let taken = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            taken.map_while(|at| Some((at, Searches::of(*Bug::ALL.get(at)?)))).collect::<Vec<_>>()
        };
        let runners: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        let joined = runners.into_iter().map(thread::ScopedJoinHandle::join);
        joined.flat_map(|found| found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    println!("| bug | found by | fewest seeds | median | most | the seed that ended the longest search |");
    println!("|---|---|--:|--:|--:|---|");
    for (_, searches) in &all {
        println!("{searches}");
    }
    let slow: Vec<_> =
        all.iter().map(|(_, searches)| searches).filter(|searches| is_slow(searches)).collect();
    assert!(slow.is_empty(), "found too late: {:?}", slow.iter().map(|slow| slow.bug).collect::<Vec<_>>());
}

fn is_slow(searches: &Searches) -> bool {
    searches.median() > FOUND_WITHIN || searches.longest() > LONGEST
}

#[test]
fn the_queues_that_bugs_are_put_into_keep_every_promise_without_one() {
    for seed in 0..150 {
        let report = simulation::run_on_bug_queues(seed);
        assert!(report.violations.is_empty(), "{report}");
    }
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
