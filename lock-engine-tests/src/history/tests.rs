//! Each checker finds its planted violation, and finds nothing in a correct history.

use std::time::Duration;

use lock_core::{BootTime, Claim, EntryId, FencingToken, LostReason};
use proptest::prelude::*;

use super::*;

const TTL: Duration = Duration::from_secs(1);

fn at(ms: u64) -> BootTime {
    BootTime::new(Duration::from_millis(ms))
}

/// Builds a history. Times are in milliseconds, each acquisition has a client of its own, and the number of an entry is that of its
/// acquisition.
#[derive(Default)]
struct Script {
    events: Vec<Event>,
    ops: usize,
    sessions: bool,
}

impl Script {
    fn put(&mut self, ms: u64, what: EventKind) {
        self.events.push(Event { at: at(ms), what });
    }

    fn ask(&mut self, ms: u64, claim: Claim, mode: AcquireMode) -> Op {
        let op = Op(self.ops);
        self.ops += 1;
        self.put(
            ms,
            EventKind::Invoked {
                op,
                client: op.0,
                name: "a".into(),
                claim,
                ttl: TTL,
                mode,
                renew: true,
                max_hold: None,
            },
        );
        op
    }

    fn wait(&mut self, ms: u64) -> Op {
        self.ask(ms, Claim::mutex(), AcquireMode::Wait)
    }

    fn grant(&mut self, ms: u64, op: Op, token: u64) {
        let entry = EntryId::new(op.0 as u128);
        self.put(ms, EventKind::Granted { op, token: FencingToken::new(token), entry });
    }

    fn enqueue(&mut self, ms: u64, op: Op, sent: u64) {
        self.put(ms, EventKind::Enqueued { entry: EntryId::new(op.0 as u128), sent: at(sent) });
    }

    fn give_back(&mut self, ms: u64, op: Op) {
        self.put(ms, EventKind::Returned { op, way: GiveBack::Release, deadline: at(ms + 500) });
        self.put(ms + 2, EventKind::Released { op, confirmed: true });
    }

    fn lose(&mut self, ms: u64, op: Op, deadline: u64) {
        self.put(ms, EventKind::Lost { op, reason: LostReason::MaxHold, deadline: at(deadline) });
    }

    fn history(mut self) -> History {
        self.events.sort_by_key(|event| event.at);
        let (late, swift) = (Duration::from_secs(5), Duration::from_millis(20));
        History { events: self.events, faultless: true, sessions: self.sessions, late, swift }
    }

    /// The ids of the checkers that found something, each once.
    fn found(self) -> Vec<&'static str> {
        let mut ids: Vec<_> = check(&self.history()).into_iter().map(|violation| violation.id).collect();
        ids.dedup();
        ids
    }
}

#[test]
fn a_history_where_all_is_well_has_no_violations() {
    let mut script = Script::default();
    let (one, two) = (script.wait(0), script.wait(1));
    script.enqueue(2, one, 0);
    script.enqueue(4, two, 3);
    script.grant(5, one, 1);
    let refused = script.ask(50, Claim::mutex(), AcquireMode::Try);
    script.put(52, EventKind::Refused { op: refused });
    script.give_back(100, one);
    script.grant(103, two, 2);
    script.give_back(200, two);
    assert_eq!(script.found(), Vec::<&str>::new());
}

#[test]
fn two_holders_at_one_time_are_found() {
    let mut script = Script::default();
    let (one, two) = (script.wait(0), script.wait(0));
    script.grant(5, one, 1);
    script.grant(50, two, 2);
    script.give_back(51, one);
    script.give_back(60, two);
    assert_eq!(script.found(), ["M1"]);
}

#[test]
fn a_writer_beside_a_reader_and_one_permit_too_many_are_found() {
    for claims in [
        vec![Claim::reader(), Claim::reader(), Claim::writer()],
        vec![
            Claim::semaphore(1, 3).unwrap(),
            Claim::semaphore(1, 3).unwrap(),
            Claim::semaphore(2, 3).unwrap(),
        ],
    ] {
        let mut script = Script::default();
        let ops: Vec<_> = claims.into_iter().map(|claim| script.ask(0, claim, AcquireMode::Wait)).collect();
        for (i, &op) in ops.iter().enumerate() {
            script.grant(5, op, i as u64 + 1);
            script.give_back(10, op);
        }
        assert_eq!(script.found(), ["M1"]);
    }
}

#[test]
fn a_holder_whose_deadline_has_passed_excludes_nobody() {
    let mut script = Script::default();
    let (one, two) = (script.wait(0), script.wait(0));
    script.grant(5, one, 1);
    script.put(10, EventKind::Blocked { client: one.0 });
    script.grant(1_010, two, 2);
    script.give_back(1_050, two);
    script.put(2_000, EventKind::Unblocked { client: one.0 });
    script.lose(2_000, one, 1_000);
    assert_eq!(script.found(), Vec::<&str>::new());
}

#[test]
fn a_refusal_without_anybody_in_the_way_is_found() {
    let mut script = Script::default();
    let one = script.wait(0);
    script.grant(5, one, 1);
    script.give_back(10, one);
    let refused = script.ask(50, Claim::mutex(), AcquireMode::Try);
    script.put(52, EventKind::Refused { op: refused });
    assert_eq!(script.found(), ["M1b"]);
}

/// Seed 1971783: the keeper of the blocked client could not remove the entry, and the store had no ttl that ended it.
#[test]
fn what_a_paused_client_left_is_in_the_way_only_where_sessions_keep_it() {
    for sessions in [true, false] {
        let mut script = Script { sessions, ..Script::default() };
        let one = script.wait(0);
        script.grant(5, one, 1);
        script.put(10, EventKind::Returned { op: one, way: GiveBack::Drop, deadline: at(900) });
        script.put(11, EventKind::Blocked { client: one.0 });
        script.put(20_000, EventKind::Unblocked { client: one.0 });
        let refused = script.ask(20_000, Claim::mutex(), AcquireMode::Try);
        script.put(20_005, EventKind::Refused { op: refused });
        let found = if sessions { vec![] } else { vec!["M1b"] };
        assert_eq!(script.found(), found, "sessions: {sessions}");
    }
}

#[test]
fn a_token_that_goes_back_or_comes_twice_is_found() {
    for second in [1, 2] {
        let mut script = Script::default();
        let one = script.wait(0);
        script.grant(5, one, 2);
        script.give_back(10, one);
        let two = script.wait(50);
        script.grant(55, two, second);
        script.give_back(60, two);
        assert!(script.found().contains(&"M2"), "token {second} after 2");
    }
}

#[test]
fn a_writer_with_a_smaller_token_than_an_earlier_reader_is_found() {
    let mut script = Script::default();
    let reader = script.ask(0, Claim::reader(), AcquireMode::Wait);
    let writer = script.ask(0, Claim::writer(), AcquireMode::Wait);
    script.grant(5, reader, 2);
    script.give_back(10, reader);
    script.grant(13, writer, 1);
    script.give_back(20, writer);
    assert_eq!(script.found(), ["M2r"]);
}

#[test]
fn a_late_lost_signal_is_found() {
    let mut script = Script::default();
    let one = script.wait(0);
    script.grant(5, one, 1);
    script.lose(1_000, one, 980);
    assert_eq!(script.found(), ["M4"]);
}

#[test]
fn a_loss_without_a_fault_is_found() {
    let mut script = Script::default();
    let one = script.wait(0);
    script.grant(5, one, 1);
    script.put(990, EventKind::Lost { op: one, reason: LostReason::Expired, deadline: at(990) });
    assert_eq!(script.found(), ["M4"]);
}

#[test]
fn a_guard_that_is_held_for_longer_than_it_may_be_is_found() {
    for bound in [(true, Some(Duration::from_millis(500))), (false, None)] {
        let mut script = Script::default();
        let one = script.wait(0);
        let EventKind::Invoked { renew, max_hold, .. } = &mut script.events[0].what else {
            panic!("it was just begun")
        };
        (*renew, *max_hold) = bound;
        script.grant(5, one, 1);
        script.give_back(1_020, one);
        assert_eq!(script.found(), ["M4"], "{bound:?}");
    }
}

#[test]
fn an_evicted_holder_that_goes_on_is_found() {
    let mut script = Script::default();
    let one = script.wait(0);
    script.grant(5, one, 1);
    script.put(10, EventKind::Evicted { entry: EntryId::new(0), token: FencingToken::new(1) });
    script.give_back(1_100, one);
    assert_eq!(script.found(), ["M4"]);
}

#[test]
fn a_guard_that_is_never_lost_is_found() {
    let mut script = Script::default();
    let one = script.wait(0);
    script.grant(5, one, 1);
    script.put(10, EventKind::Forgotten { op: one });
    assert_eq!(script.found(), ["M4"]);
}

#[test]
fn a_wait_that_goes_on_beside_a_free_lock_is_found() {
    let mut script = Script::default();
    let (one, two) = (script.wait(0), script.wait(0));
    script.grant(5, one, 1);
    script.give_back(10, one);
    script.grant(70, two, 2);
    script.give_back(80, two);
    assert_eq!(script.found(), ["M5"]);
}

#[test]
fn a_wait_that_never_ends_or_lasts_too_long_is_found() {
    let mut script = Script::default();
    script.wait(0);
    assert_eq!(script.found(), ["M5"]);
    let mut script = Script::default();
    let holder = script.wait(0);
    script.grant(1, holder, 1);
    let late = script.ask(2, Claim::mutex(), AcquireMode::WaitFor(Duration::from_millis(100)));
    script.put(150, EventKind::TimedOut { op: late });
    script.give_back(200, holder);
    assert_eq!(script.found(), ["M5"]);
}

#[test]
fn a_try_that_waits_is_found() {
    let mut script = Script::default();
    let holder = script.wait(0);
    script.grant(1, holder, 1);
    let one = script.ask(5, Claim::mutex(), AcquireMode::Try);
    script.give_back(90, holder);
    script.grant(92, one, 2);
    script.give_back(95, one);
    assert_eq!(script.found(), ["M5"]);
}

#[test]
fn a_waiter_that_is_passed_is_found() {
    let mut script = Script::default();
    let (holder, first, second) = (script.wait(0), script.wait(0), script.wait(0));
    script.grant(2, holder, 1);
    script.enqueue(5, first, 3);
    script.enqueue(15, second, 10);
    script.give_back(20, holder);
    script.grant(23, second, 2);
    script.give_back(40, second);
    script.grant(43, first, 3);
    script.give_back(50, first);
    assert_eq!(script.found(), ["M6"]);
}

#[test]
fn a_waiter_that_is_passed_by_one_that_goes_with_it_is_found() {
    let mut script = Script::default();
    let claim = |permits| Claim::semaphore(permits, 3).unwrap();
    let (first, second) =
        (script.ask(0, claim(2), AcquireMode::Wait), script.ask(0, claim(1), AcquireMode::Wait));
    let holder = script.ask(0, claim(2), AcquireMode::Wait);
    script.grant(2, holder, 1);
    script.enqueue(5, first, 3);
    script.enqueue(15, second, 10);
    script.grant(16, second, 3);
    script.give_back(90, holder);
    script.grant(93, first, 2);
    script.give_back(95, first);
    script.give_back(95, second);
    assert_eq!(script.found(), ["M6"]);
}

#[test]
fn a_history_is_printed_with_one_line_for_each_event() {
    let mut script = Script::default();
    let one = script.wait(0);
    script.grant(5, one, 1);
    let text = script.history().to_string();
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("0.000000  #0 client 0 asks for `a` as a mutex"), "{text}");
    assert!(text.contains("0.005000  #0 is granted, token 1"), "{text}");
}

/// A claim, when its guard is returned, and for how long its holder believes in it.
fn holds(limit: u32) -> impl Strategy<Value = Vec<(u32, u64, u64)>> {
    prop::collection::vec((1..=limit, 0..12_u64, 0..6_u64), 0..7)
}

proptest! {
    /// M1 without the sweep: at each instant, it adds up the permits of all holds that their clients believe in.
    #[test]
    fn the_sweep_finds_what_adding_up_at_every_instant_finds(limit in 1..4_u32, seed in holds(3)) {
        let mut script = Script::default();
        let holds: Vec<_> = seed.into_iter().map(|(permits, from, long)| (permits.min(limit), from, from + long)).collect();
        for &(permits, from, until) in &holds {
            let op = script.ask(0, Claim::semaphore(permits, limit).unwrap(), AcquireMode::Wait);
            script.grant(from, op, 1);
            script.put(until, EventKind::Returned { op, way: GiveBack::Drop, deadline: at(until) });
        }
        let history = script.history();
        let found = !exclusion::check(&history, &history.acquisitions()).is_empty();
        let too_many = (0..20).any(|now| {
            let held: u32 = holds.iter().filter(|(_, from, until)| (*from..*until).contains(&now)).map(|hold| hold.0).sum();
            held > limit
        });
        prop_assert_eq!(found, too_many);
    }
}
