//! The bug bank: bugs that locks have had, each put in on purpose, and the case that has to find it.
//!
//! `docs/bug-bank.md` lists them. Bugs between the clients and a store are in `lock-conformance`, which plants them in every store
//! ([`lock_conformance::BUGS`]), and one of Redis is in `lock-redis`. Bugs of the engine are switches in a copy of its source, in the package
//! `bugs`. Bugs that show only if clocks differ are found by the [simulation](lock_engine_tests::simulation). And the checks that find
//! leftovers, leaks and uncut notifications are shown to find them.

mod cuts;
mod defects;
mod leaks;
#[path = "../../../lock-conformance/tests/memory_harness/mod.rs"]
mod memory_harness;
mod strays;
#[path = "../../bugs/switches.rs"]
#[allow(dead_code, reason = "the switches are of use to the package `bugs`")]
mod switches;
mod table;

use lock_engine_tests::simulation::{self, Bug};

use self::memory_harness::MemoryHarness;

/// How many seeds the simulation may need.
const SEEDS: u64 = 500;

/// Bugs that the simulation finds, and the checker that finds them.
const SIMULATED: &[(&str, Bug, &str)] =
    &[("b01", Bug::DeadlineFromReply, "M1"), ("b25", Bug::SemaphoreOnClientClocks, "M1")];

fn is_found_by_simulation(id: &str) {
    let bug = SIMULATED.iter().find(|(listed, ..)| *listed == id).expect("it is in the list");
    let (_, bug, checker) = *bug;
    let finds = |seed| simulation::run_with_bug(seed, bug).violations.iter().any(|found| found.id == checker);
    let found = (0..SEEDS).find(|seed| finds(*seed));
    let seed = found.unwrap_or_else(|| panic!("{id} is not found in {SEEDS} seeds"));
    let sound = simulation::run(seed);
    assert!(sound.violations.is_empty(), "seed {seed} finds something without {id}, too:\n{sound}");
}

#[test]
fn b01_a_deadline_counted_from_the_reply_is_found() {
    is_found_by_simulation("b01");
}

#[test]
fn b25_a_semaphore_on_the_clocks_of_its_clients_is_found() {
    is_found_by_simulation("b25");
}
