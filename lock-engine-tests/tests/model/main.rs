//! The queue of leases, explored exhaustively for a few clients.
//!
//! A state contains everything: the queue of one name as the store has it, what the wait engine and the keeper of each client know, and the
//! messages between them. From each state, the checker tries everything that can happen next: a request or its answer is lost, slow, late, or
//! carried out twice; a hint is lost or comes late; a future or a guard is dropped; a process crashes and another one starts; the keeper acts,
//! soon or later; time goes by. No step has to be quick. The only assumption is that the clock of a client is not slower than that of the
//! store, and one test drops it. `lock_core::admission`, the rule that the backends use, decides which entries are admitted.
//!
//! Times are counted from now, and tokens are renumbered in each state, so the number of states is finite, although each client acquires, renews
//! and crashes any number of times. These are bounded: the number of clients, the ttl in ticks, and the number of slow messages, pending
//! departures and entries of crashed clients at a time (see [`leases::Config`]). `sessions` does the same for stores with shared leases, where a
//! waiter watches the entries ahead of it; messages are lost there, but none is slow. `plain_commands` explores a proposal for Redis that is not
//! built yet. The checker visits all states. `mutations` leaves out one
//! rule at a time, and the checker finds and prints the shortest way to break a promise.
//!
//! ```sh
//! cargo test -p lock-engine-tests --test model -- --nocapture                # prints the numbers and the counterexamples
//! MODEL=large cargo test --release -p lock-engine-tests --test model -- --nocapture --test-threads=1    # some minutes
//! ```

mod check;
mod leases;
mod mutations;
mod plain_commands;
mod sessions;
mod types;

use lock_core::Claim;

use check::proves;
use leases::{
    Clocks, Config, Hinting, Leases, Purging,
    promises::{
        ALWAYS, EXCLUSION, GIVEN_UP, GONE, HAND_OFF, LATE_GRANT, LOSS, MISMATCH, ORPHAN, OVERLAP, OVERTAKEN,
        Promise, TOGETHER, TOLD,
    },
};

/// Whether `MODEL=large` is set.
fn large() -> bool {
    std::env::var("MODEL").is_ok_and(|form| form == "large")
}

/// `n` clients of one mutex, with a ttl in ticks.
fn mutexes(n: usize, ttl: u8) -> Config {
    Config::new(vec![Claim::mutex(); n], ttl)
}

fn all(config: Config, sometimes: &[Promise]) -> Leases {
    Leases { config, promises: [&ALWAYS, sometimes].concat() }
}

#[test]
fn a_mutex_of_two_keeps_every_promise_whatever_is_lost() {
    let ttl = if large() { 5 } else { 3 };
    let config = Config { wire: 0, hurried: true, pending_leaves: 2, ..mutexes(2, ttl) };
    proves("mutex of two, messages are lost", all(config, &[HAND_OFF, LOSS, GIVEN_UP, ORPHAN]), 50_000);
}

#[test]
fn a_name_has_one_kind_at_a_time() {
    let one = Claim::semaphore(1, 2).expect("1 of 2");
    let wire = if large() { 2 } else { 1 };
    let config = Config { wire, ..Config::new([Claim::mutex(), one], 3) };
    proves("two kinds on one name", all(config, &[LOSS, MISMATCH]), 5_000);
}

#[test]
fn the_dead_do_not_count_where_they_stay() {
    let config = Config { purging: Purging::Lazy, wire: usize::from(large()), ..mutexes(2, 2) };
    proves("mutex of two, the dead stay", all(config, &[HAND_OFF, LOSS, GIVEN_UP]), 20_000);
}

/// Clocks may also go on, so this model includes everything that happens while they are correct. To check the order of tokens, its clients
/// remember which tokens had been returned before they asked; other models do not need that.
#[test]
fn clocks_that_stop_break_exclusion_and_nothing_else() {
    let wire = usize::from(large());
    let config = Config { clocks: Clocks::Stopping, wire, crashes: 0, history: true, ..mutexes(2, 2) };
    let mut model = all(config, &[OVERLAP, LOSS, HAND_OFF]);
    model.promises.retain(|promise| promise.name != EXCLUSION.name);
    proves("mutex of two, clocks stop", model, 20_000);
}

fn over_sessions(config: sessions::Config, sometimes: &[sessions::Promise]) -> sessions::Sessions {
    sessions::Sessions { config, promises: [&sessions::ALWAYS[..], &sessions::SOMETIMES, sometimes].concat() }
}

#[test]
fn a_mutex_over_sessions_keeps_every_promise() {
    let claims = [Claim::mutex(); 2];
    let config = sessions::Config { evictions: true, crashes: true, ..sessions::Config::new(claims, 2) };
    proves("mutex of two, sessions", over_sessions(config, &[sessions::ORPHAN]), 1_000);
}

#[test]
fn a_read_write_lock_over_sessions_keeps_every_promise() {
    let claims = [Claim::reader(), Claim::writer(), Claim::reader()];
    let config = sessions::Config { left_behind: usize::from(large()), ..sessions::Config::new(claims, 2) };
    proves("read-write lock of three, sessions", over_sessions(config, &[sessions::TOGETHER]), 1_000);
}

#[test]
fn a_weighted_semaphore_over_sessions_keeps_every_promise() {
    let claim = |permits| Claim::semaphore(permits, 3).expect("of 3");
    let claims = [claim(1), claim(2), claim(2)];
    let config = sessions::Config { left_behind: usize::from(large()), ..sessions::Config::new(claims, 2) };
    proves("semaphore of three, sessions", over_sessions(config, &[sessions::TOGETHER]), 1_000);
}

#[test]
fn a_mutex_that_plain_commands_create_keeps_every_promise() {
    let settings: &[(u8, u8)] = if large() { &[(2, 2), (3, 1)] } else { &[(2, 1)] };
    for &(clients, lives) in settings {
        let config = plain_commands::Config::new(clients, lives, 2);
        let promises = [&plain_commands::ALWAYS[..], &plain_commands::SOMETIMES].concat();
        let model = plain_commands::PlainCommands { config, promises };
        proves(&format!("mutex of {clients}, {lives} each, plain commands"), model, 5_000);
    }
}

/// These tests run alone: each of them keeps all cores busy for seconds.
mod alone {
    use super::*;

    #[test]
    fn a_mutex_of_two_keeps_every_promise_on_a_slow_wire() {
        let (crashes, ttl) = if large() { (1, 3) } else { (0, 2) };
        let config = Config { crashes, ..mutexes(2, ttl) };
        let sometimes = [HAND_OFF, LOSS, OVERTAKEN, GIVEN_UP, GONE, LATE_GRANT];
        proves("mutex of two, one message is slow", all(config, &sometimes), 100_000);
    }

    #[test]
    fn what_a_client_leaves_behind_does_not_harm_its_next_acquisition() {
        let wire = if large() { 3 } else { 2 };
        let config = Config { wire, hurried: true, pending_leaves: 2, ..mutexes(1, 3) };
        let sometimes = [HAND_OFF, LOSS, OVERTAKEN, GIVEN_UP, GONE, LATE_GRANT, ORPHAN];
        proves("mutex of one, some messages are slow", all(config, &sometimes), 100_000);
    }

    #[test]
    fn a_mutex_of_three_keeps_every_promise() {
        let config = Config { crashes: usize::from(large()), wire: 0, ..mutexes(3, 2) };
        proves("mutex of three", all(config, &[HAND_OFF, LOSS, GIVEN_UP]), 100_000);
    }

    #[test]
    fn a_read_write_lock_keeps_every_promise() {
        let claims = [Claim::reader(), Claim::writer(), Claim::reader()];
        let config = Config { crashes: usize::from(large()), wire: 0, ..Config::new(claims, 2) };
        proves("read-write lock of three", all(config, &[HAND_OFF, LOSS, GIVEN_UP, TOGETHER]), 100_000);
    }

    #[test]
    fn a_weighted_semaphore_keeps_every_promise() {
        let claim = |permits| Claim::semaphore(permits, 3).expect("of 3");
        let claims = [claim(1), claim(2), claim(2)];
        let config = Config { crashes: usize::from(large()), wire: 0, ..Config::new(claims, 2) };
        proves("semaphore of three", all(config, &[HAND_OFF, LOSS, GIVEN_UP, TOGETHER]), 100_000);
    }

    #[test]
    fn an_admitted_waiter_is_told_or_knows_that_hints_were_lost() {
        let config = Config { hints: Hinting::Subscribed, late: large(), crashes: 0, ..mutexes(2, 2) };
        proves("mutex of two, subscriptions break", all(config, &[HAND_OFF, LOSS, TOLD]), 100_000);
    }
}
