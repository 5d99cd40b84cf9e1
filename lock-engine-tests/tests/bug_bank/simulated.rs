//! Bugs that show only among many clients, whose clocks differ and whose messages are late, lost or repeated: the
//! [simulation](lock_engine_tests::simulation) finds them.

use std::collections::BTreeSet;

use lock_engine_tests::simulation::{self, Bug};

/// How many seeds the simulation may need.
const SEEDS: u64 = 500;

/// The bugs, and the checker that finds each.
pub(crate) const SIMULATED: &[(&str, Bug, &str)] = &[
    ("b01", Bug::DeadlineFromReply, "M1"),
    ("b25", Bug::SemaphoreOnClientClocks, "M1"),
    ("b50", Bug::LeasesEndEarly, "M1"),
    ("b51", Bug::TtlIsClamped, "M1"),
    ("b52", Bug::CreateAddsTwice, "M5"),
    ("b53", Bug::LeaveFreesAnyone, "M1"),
    ("b54", Bug::NewcomersPass, "M6"),
    ("b55", Bug::NoTombstone, "M5"),
    ("b56", Bug::RenewalCreates, "M4"),
    ("b57", Bug::TokensStartOver, "M2"),
];

fn is_found(id: &str) {
    let listed = SIMULATED.iter().find(|(listed, ..)| *listed == id).expect("it is in the list");
    let (_, bug, checker) = *listed;
    let mut others = BTreeSet::new();
    for seed in 0..SEEDS {
        let violations = simulation::run_with_bug(seed, bug).violations;
        if violations.iter().any(|found| found.id == checker) {
            return assert_sound(seed, id);
        }
        others.extend(violations.iter().map(|found| found.id));
    }
    panic!("{checker} does not find {id} in {SEEDS} seeds, though these find something: {others:?}");
}

/// The seed finds nothing without the bug, whatever the bug is put into.
fn assert_sound(seed: u64, id: &str) {
    for sound in [simulation::run(seed), simulation::run_on_bug_queues(seed)] {
        assert!(sound.violations.is_empty(), "seed {seed} finds something without {id}, too:\n{sound}");
    }
}

#[test]
fn b01_a_deadline_counted_from_the_reply_is_found() {
    is_found("b01");
}

#[test]
fn b25_a_semaphore_on_the_clocks_of_its_clients_is_found() {
    is_found("b25");
}

#[test]
fn b50_leases_that_the_store_ends_early_are_found() {
    is_found("b50");
}

#[test]
fn b51_a_ttl_that_the_store_clamps_in_silence_is_found() {
    is_found("b51");
}

#[test]
fn b52_a_repeated_create_that_adds_a_second_entry_is_found() {
    is_found("b52");
}

#[test]
fn b53_a_leave_that_frees_the_lease_of_another_client_is_found() {
    is_found("b53");
}

#[test]
fn b54_a_grant_that_passes_those_who_wait_is_found() {
    is_found("b54");
}

#[test]
fn b55_a_create_that_no_tombstone_refuses_is_found() {
    is_found("b55");
}

#[test]
fn b56_a_renewal_that_brings_an_entry_back_is_found() {
    is_found("b56");
}

#[test]
fn b57_tokens_that_start_over_are_found() {
    is_found("b57");
}
