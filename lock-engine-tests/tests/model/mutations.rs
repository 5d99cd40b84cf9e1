//! Each rule that is left out, and each bug that is put in, breaks a promise. The checker prints the shortest way to break it.

use lock_core::Claim;

use crate::{
    check::breaks,
    leases::{
        Clocks, Config, Hinting, Leases, Mutation, Purging,
        promises::{EXCLUSION, FAIRNESS, NOBODYS_ENTRY, PROGRESS, PROMOTION, Promise, TOKEN_ORDER, TOLD},
    },
    mutexes, plain_commands,
    sessions::{self, Sessions},
};

fn without(mutation: Mutation, config: Config, promise: Promise) {
    breaks(Leases { config: Config { mutation: Some(mutation), ..config }, promises: vec![promise] });
}

#[test]
fn without_pr02_a_hint_is_combined_with_a_lease_that_was_not_given() {
    without(Mutation::Pr02, mutexes(2, 3), EXCLUSION);
}

#[test]
fn without_pr03_a_hint_for_a_former_life_is_believed() {
    without(Mutation::Pr03, mutexes(2, 2), EXCLUSION);
}

#[test]
fn without_pr04_a_late_renewal_cuts_a_lease() {
    without(Mutation::Pr04, mutexes(2, 3), EXCLUSION);
}

#[test]
fn without_pr06_the_dead_come_back_to_their_place() {
    without(Mutation::Pr06, Config { purging: Purging::Lazy, ..mutexes(2, 2) }, EXCLUSION);
}

#[test]
fn without_pr07_two_kinds_hold_one_name() {
    let one_of_two = Claim::semaphore(1, 2).expect("1 of 2");
    without(Mutation::Pr07, Config::new([Claim::mutex(), one_of_two], 3), EXCLUSION);
}

#[test]
fn without_pr08_a_late_create_stays_behind_a_confirmed_leave() {
    without(Mutation::Pr08, mutexes(1, 3), NOBODYS_ENTRY);
}

#[test]
fn without_pr11_a_reader_is_forgotten_when_the_writer_ahead_gives_up() {
    let claims = [Claim::reader(), Claim::writer(), Claim::reader()];
    without(Mutation::Pr11, Config::new(claims, 2), PROMOTION);
}

#[test]
fn without_pr12_a_newcomer_passes_the_queue() {
    without(Mutation::Pr12, mutexes(2, 3), FAIRNESS);
}

#[test]
fn without_pr13_a_waiter_sleeps_past_its_own_lease() {
    without(Mutation::Pr13, Config { ttls: vec![5, 2], ..mutexes(2, 2) }, PROGRESS);
}

#[test]
fn without_pr14_a_hint_lost_with_its_subscription_is_not_made_up_for() {
    without(Mutation::Pr14, Config { hints: Hinting::Subscribed, ..mutexes(2, 3) }, TOLD);
}

#[test]
fn without_pr19_the_queue_is_taken_away_with_the_shortest_lease() {
    without(Mutation::Pr19, Config { ttls: vec![3, 2], ..mutexes(2, 3) }, EXCLUSION);
}

#[test]
fn without_c2_tokens_start_over() {
    without(Mutation::C02, Config { history: true, ..mutexes(2, 3) }, TOKEN_ORDER);
}

#[test]
fn without_c6_a_hint_falls_between() {
    without(Mutation::C06, Config { hints: Hinting::Subscribed, ..mutexes(2, 3) }, TOLD);
}

#[test]
fn b01_a_deadline_that_is_counted_from_the_answer_is_too_late() {
    without(Mutation::B01, mutexes(2, 2), EXCLUSION);
}

#[test]
fn b05_a_leave_that_removes_the_first_entry_frees_the_lock_of_another() {
    without(Mutation::B05, mutexes(2, 2), EXCLUSION);
}

#[test]
fn a_grant_for_a_place_that_the_keeper_gave_up_is_not_to_be_relied_on() {
    without(Mutation::GivenUp, mutexes(2, 2), EXCLUSION);
}

/// The protocol does not protect from this: see `Mutation::Repeats`. Such an entry lives for one ttl.
#[test]
fn a_wire_that_repeats_creates_by_itself_leaves_entries_behind() {
    without(Mutation::Repeats, mutexes(1, 3), NOBODYS_ENTRY);
}

/// The other side of `clocks_that_stop_break_exclusion_and_nothing_else`.
#[test]
fn exclusion_needs_the_timing_assumption() {
    let config = Config { clocks: Clocks::Stopping, wire: 0, ..mutexes(2, 2) };
    breaks(Leases { config, promises: vec![EXCLUSION] });
}

fn without_over_sessions(mutation: sessions::Mutation, config: sessions::Config, promise: sessions::Promise) {
    breaks(Sessions {
        config: sessions::Config { mutation: Some(mutation), ..config },
        promises: vec![promise],
    });
}

fn mutexes_over_sessions(n: usize) -> sessions::Config {
    sessions::Config::new(vec![Claim::mutex(); n], 3)
}

#[test]
fn without_pr01_a_stale_proof_of_the_session_is_taken_for_a_new_one() {
    without_over_sessions(sessions::Mutation::Pr01, mutexes_over_sessions(2), sessions::EXCLUSION);
}

#[test]
fn without_pr09_a_session_keeps_forgotten_entries_for_ever() {
    without_over_sessions(sessions::Mutation::Pr09, mutexes_over_sessions(1), sessions::NOBODYS_ENTRY);
}

#[test]
fn without_pr15_a_waiter_watches_the_wrong_one_and_is_not_woken() {
    let claims = [Claim::writer(), Claim::reader(), Claim::reader()];
    without_over_sessions(sessions::Mutation::Pr15, sessions::Config::new(claims, 2), sessions::WOKEN);
}

#[test]
fn without_pr16_the_first_departure_is_taken_for_a_grant() {
    let claim = |permits| Claim::semaphore(permits, 2).expect("of 2");
    let config = sessions::Config::new([claim(1), claim(1), claim(2)], 2);
    without_over_sessions(sessions::Mutation::Pr16, config, sessions::EXCLUSION);
}

#[test]
fn without_pr17_a_waiter_waits_for_those_behind_it() {
    without_over_sessions(sessions::Mutation::Pr17, mutexes_over_sessions(2), sessions::WOKEN);
}

#[test]
fn without_pr18_a_session_that_is_alive_proves_an_entry_that_is_not() {
    let config = sessions::Config { evictions: true, ..mutexes_over_sessions(2) };
    without_over_sessions(sessions::Mutation::Pr18, config, sessions::EXCLUSION);
}

/// Two clients that acquire a mutex so often each, by plain commands.
fn without_in_plain_commands(
    mutation: plain_commands::Mutation,
    lives: u8,
    promise: plain_commands::Promise,
) {
    let config =
        plain_commands::Config { mutation: Some(mutation), ..plain_commands::Config::new(2, lives, 2) };
    breaks(plain_commands::PlainCommands { config, promises: vec![promise] });
}

#[test]
fn a_create_that_does_not_look_for_a_queue_passes_it() {
    without_in_plain_commands(plain_commands::Mutation::IgnoresQueue, 2, plain_commands::ORDER);
}

/// The answer that would tell its client may be lost.
#[test]
fn a_script_that_does_not_look_for_who_has_passed_the_queue_grants_it() {
    without_in_plain_commands(plain_commands::Mutation::KeepsWhoPassed, 1, plain_commands::ORDER);
}

#[test]
fn a_repeated_create_that_takes_a_newer_token_overtakes_the_waiters() {
    without_in_plain_commands(plain_commands::Mutation::RepeatsWithNewerToken, 1, plain_commands::ORDER);
}

#[test]
fn a_waiter_that_does_not_mark_the_value_is_granted_a_lock_that_is_held() {
    without_in_plain_commands(plain_commands::Mutation::LeavesUnmarked, 1, plain_commands::EXCLUSION);
}

#[test]
fn a_waiter_that_does_not_mark_the_value_is_not_passed_the_lock() {
    without_in_plain_commands(plain_commands::Mutation::LeavesUnmarked, 1, plain_commands::STRANDED);
}

#[test]
fn a_renewal_that_compares_the_whole_value_calls_a_lock_lost_that_is_held() {
    without_in_plain_commands(plain_commands::Mutation::ComparesWholeValue, 1, plain_commands::LOSS);
}

#[test]
fn a_leave_without_a_barrier_is_followed_by_its_create() {
    without_in_plain_commands(plain_commands::Mutation::LeavesWithoutBarrier, 1, plain_commands::LEFT_BEHIND);
}
