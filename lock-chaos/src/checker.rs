//! [`check`]: what must not be in the history of a name.

use std::{collections::BTreeMap, time::Duration};

use lock_core::BootTime;
use lock_engine_tests::history::{
    self, AcquireMode, Acquisition, EventKind, GiveBack, History, Hold, Violation,
};

use crate::{held::LATE, starvation::starvation};

/// How long a try or a release may take. It is answered or fails within some time limits of the store: for connecting, for a command, and for
/// one more.
const ANSWER: Duration = Duration::from_secs(20);

/// Runs the checkers of the engine, and some that are stricter, or look at what those leave out.
///
/// | found | id |
/// |---|---|
/// | two hold a lock at once, before the deadline and the lost signal of the first | M1 |
/// | a try is refused where nobody can have been in the way | M1b |
/// | a token does not grow | M2, M2r |
/// | the lost signal comes late, or after the next grant | M4 |
/// | an answer never comes, comes late, or waits for a lock that nobody can have, or that nobody gets | M5, hang |
///
/// The checkers of the engine excuse whatever is late if its client stood still in between. Here only the time counts in which the client ran.
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let acquisitions = history.acquisitions();
    let mut found = history::check(history);
    let late = acquisitions.iter().flat_map(|acquisition| late(history, acquisition));
    let more = late
        .chain(slow_releases(history, &acquisitions))
        .chain(starvation(history, &acquisitions))
        .chain(disorder(&acquisitions));
    for violation in more {
        let is_the_same = |other: &Violation| other.id == violation.id && about(other) == about(&violation);
        if !found.iter().any(is_the_same) {
            found.push(violation);
        }
    }
    found
}

/// The acquisition that a violation is about: the first one that it names.
fn about(violation: &Violation) -> Option<&str> {
    violation.what.split_whitespace().next()
}

/// An answer or a lost signal that is late, though its client ran.
fn late(history: &History, acquisition: &Acquisition) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut found = |id, what: String| {
        violations.push(Violation { id, what: format!("{} {what}", acquisition.op) });
    };
    if let Some(answered) = acquisition.answered {
        let ran = ran(acquisition, acquisition.invoked, answered);
        match acquisition.mode {
            AcquireMode::Try if ran > ANSWER => found("hang", format!("is a try, and takes {ran:?}")),
            AcquireMode::WaitFor(wait) if ran > wait + wait / 90 + history.swift => {
                found("M5", format!("waits for {ran:?}, and wanted to wait for {wait:?}"));
            }
            _ => {}
        }
    }
    if let Some((signal, deadline)) = acquisition.hold().and_then(|(_, hold)| hold.lost) {
        let ran = ran(acquisition, deadline, signal);
        if ran > LATE {
            found("M4", format!("ran for {ran:?} after its deadline before it was told of its loss"));
        }
    }
    violations
}

/// Releases that are answered late, or never though the client was not killed.
fn slow_releases(history: &History, acquisitions: &[Acquisition]) -> Vec<Violation> {
    let (mut begun, mut violations) = (BTreeMap::new(), Vec::new());
    for event in &history.events {
        match &event.what {
            EventKind::Returned { op, way: GiveBack::Release, .. } => {
                begun.insert(*op, event.at);
            }
            EventKind::Released { op, .. } => {
                let took = begun.remove(op).map(|from| ran(&acquisitions[op.0], from, event.at));
                if let Some(took) = took.filter(|took| *took > ANSWER) {
                    violations.push(Violation { id: "hang", what: format!("{op} is released in {took:?}") });
                }
            }
            _ => {}
        }
    }
    for op in begun.into_keys() {
        let was_killed = acquisitions[op.0].stops.iter().any(|(_, end)| *end == BootTime::FAR_FUTURE);
        if !was_killed {
            violations.push(Violation { id: "hang", what: format!("{op} is released, and never told so") });
        }
    }
    violations
}

/// Tokens of grants that are excused, in another order than the grants: the checker of the engine leaves these out. Only one that had ended
/// before its client knew of it may be noted after the next one.
fn disorder(acquisitions: &[Acquisition]) -> Vec<Violation> {
    let granted = acquisitions.iter().filter_map(|one| one.hold().map(|(at, hold)| (one, at, hold)));
    let in_time = |at: BootTime, hold: &Hold| hold.evicted.is_none_or(|end| at < end);
    let granted: Vec<_> = granted.filter(|(_, at, hold)| in_time(*at, hold)).collect();
    let mut violations = Vec::new();
    for &(one, one_at, hold) in granted.iter().filter(|(_, _, hold)| hold.evicted.is_some()) {
        for &(other, other_at, next) in &granted {
            let grows = hold.token < next.token;
            if !one.goes_with(other) && one_at != other_at && (one_at < other_at) != grows {
                let why = "they exclude each other, and the later one has the smaller token";
                let what = format!("{} and {}: {why}", one.op, other.op);
                violations.push(Violation { id: "M2r", what });
            }
        }
    }
    violations
}

/// How long the client of an acquisition ran between two instants: without the times in which it stood still.
fn ran(acquisition: &Acquisition, from: BootTime, to: BootTime) -> Duration {
    let stood = |(begin, end): &(BootTime, BootTime)| to.min(*end).since(from.max(*begin));
    to.since(from).saturating_sub(acquisition.stops.iter().map(stood).sum())
}

#[cfg(test)]
mod tests {
    use lock_core::{FencingToken, Kind};

    use super::*;
    use crate::{
        excuse::{Deed, Excuses},
        history::{ClientLog, Frame, histories},
        record::{Line, What},
        store_kind::StoreKind,
    };

    const TTL: Duration = Duration::from_secs(2);
    const MUTEX: (Kind, u32, u32) = (Kind::Mutex, 1, 1);

    fn seconds(seconds: f64) -> u64 {
        Duration::from_secs_f64(seconds).as_nanos() as u64
    }

    fn instant(at: f64) -> BootTime {
        BootTime::new(Duration::from_secs_f64(at))
    }

    fn asked(op: u64, wait: Option<Duration>) -> What {
        What::Asked { op, name: "job".to_owned(), claim: MUTEX, ttl: TTL, wait }
    }

    fn granted(op: u64, token: u64, until: f64) -> What {
        let (token, entry) = (FencingToken::new(token), format!("{token:032x}"));
        What::Granted { op, token, entry, until: seconds(until) }
    }

    fn returned(op: u64, until: f64) -> What {
        What::Returned { op, dropped: true, until: seconds(until) }
    }

    fn lost(op: u64, until: f64) -> What {
        What::Lost { op, gone: false, until: seconds(until) }
    }

    fn log(client: usize, lines: Vec<(f64, What)>) -> ClientLog {
        let line = |(at, what)| Line { at: seconds(at), wall: 0, client, what };
        ClientLog { client, lines: lines.into_iter().map(line).collect(), killed: None }
    }

    /// What is found after these clients have done this, and a minute has passed in which nothing went wrong.
    fn found(logs: &[ClientLog]) -> Vec<&'static str> {
        found_on(StoreKind::Sqlite, &[], logs)
    }

    /// The same after this was done to a store.
    fn found_on(store: StoreKind, deeds: &[Deed], logs: &[ClientLog]) -> Vec<&'static str> {
        let frame = Frame { calm: instant(100.0), end: instant(160.0), sessions: false };
        let histories = histories(logs, frame, &Excuses::new(store, deeds));
        histories.values().flat_map(check).map(|violation| violation.id).collect()
    }

    /// One holder, and another that is granted the lock at `at` with this token.
    fn with_a_second(at: f64, token: u64, first: Vec<(f64, What)>) -> Vec<ClientLog> {
        let wait = Some(Duration::from_secs(10));
        let begin = [(1.0, asked(0, wait)), (1.1, granted(0, 5, 3.1))];
        let until = at + 2.0;
        let second =
            vec![(1.5, asked(0, wait)), (at, granted(0, token, until)), (at + 0.5, returned(0, until))];
        vec![log(0, begin.into_iter().chain(first).collect()), log(1, second)]
    }

    #[test]
    fn a_lock_that_changes_hands_is_no_violation() {
        assert!(found(&with_a_second(2.1, 6, vec![(2.0, returned(0, 3.1))])).is_empty());
        assert!(found(&with_a_second(3.2, 6, vec![(3.1, lost(0, 3.1))])).is_empty());
    }

    #[test]
    fn two_holders_at_once_are_found() {
        assert!(found(&with_a_second(2.1, 6, vec![(2.9, returned(0, 3.1))])).contains(&"M1"));
        // It was notified of its loss, and the next client was granted the lock before its deadline.
        assert!(found(&with_a_second(3.0, 6, vec![(3.1, lost(0, 3.1))])).contains(&"M1"));
        // It was renewed once more.
        let renewed = What::Renewed { op: 0, until: seconds(4.0) };
        assert!(found(&with_a_second(3.5, 6, vec![(2.0, renewed), (4.0, lost(0, 4.0))])).contains(&"M1"));
    }

    #[test]
    fn a_client_that_was_killed_held_its_lock_until_then_or_its_deadline() {
        let killed = |at, second: f64| {
            let mut logs = with_a_second(second, 6, vec![]);
            logs[0].killed = Some(instant(at));
            found(&logs)
        };
        assert!(killed(2.5, 2.4).contains(&"M1"));
        assert!(killed(2.5, 2.6).is_empty());
        assert!(killed(3.5, 3.2).is_empty(), "its deadline had passed");
    }

    #[test]
    fn a_token_that_does_not_grow_is_found() {
        for token in [4, 5] {
            assert!(found(&with_a_second(2.1, token, vec![(2.0, returned(0, 3.1))])).contains(&"M2"));
        }
    }

    #[test]
    fn a_signal_that_comes_late_is_found_unless_the_client_stood_still() {
        let late = |stall: Option<(f64, What)>| {
            let first = stall.into_iter().chain([(4.0, lost(0, 3.1))]).collect();
            found(&with_a_second(3.5, 6, first))
        };
        assert!(late(None).contains(&"M4"));
        assert!(late(Some((3.9, What::Stalled { from: seconds(3.0) }))).is_empty());
    }

    #[test]
    fn a_guard_that_is_neither_given_back_nor_lost_is_found() {
        assert!(found(&with_a_second(3.5, 6, vec![])).contains(&"M4"));
    }

    #[test]
    fn a_grant_that_was_over_before_it_was_noted_held_nothing() {
        let begin = vec![(1.0, asked(0, Some(TTL))), (3.5, granted(0, 5, 3.5)), (3.5, lost(0, 3.5))];
        let second = vec![(2.0, asked(0, Some(TTL))), (3.2, granted(0, 6, 5.2)), (4.0, returned(0, 5.2))];
        assert!(found(&[log(0, begin.clone()), log(1, second)]).is_empty());
        // Its token was issued all the same.
        let second = vec![(3.6, asked(0, None)), (3.7, granted(0, 5, 5.7)), (4.0, returned(0, 5.7))];
        assert!(found(&[log(0, begin), log(1, second)]).contains(&"M2"));
    }

    /// A holder of a lease of 2 s that is told at 2.7 that it is gone, and another that is granted the lock before.
    fn told_after(next: f64, store: StoreKind, deed: Deed) -> Vec<&'static str> {
        let gone = What::Lost { op: 0, gone: true, until: seconds(3.1) };
        found_on(store, &[deed], &with_a_second(next, 6, vec![(2.7, gone)]))
    }

    #[test]
    fn a_clock_set_forward_on_redis_excuses_two_holders_and_no_other_does() {
        let set = |at, by| Deed::SetClock { from: instant(at), until: instant(at), by };
        assert!(told_after(2.6, StoreKind::Redis, set(2.5, 8)).is_empty());
        assert!(told_after(2.4, StoreKind::Redis, set(2.5, 8)).contains(&"M1"), "before it was set");
        assert!(told_after(2.2, StoreKind::Redis, set(1.5, 1)).is_empty());
        assert!(told_after(2.0, StoreKind::Redis, set(1.5, 1)).contains(&"M1"), "it was set by one second");
        assert!(told_after(2.6, StoreKind::Redis, set(2.5, -4)).contains(&"M1"));
        for store in [StoreKind::Etcd, StoreKind::Zookeeper, StoreKind::Sqlite] {
            assert!(told_after(2.6, store, set(2.5, 8)).contains(&"M1"), "{store:?}");
        }
    }

    #[test]
    fn a_clock_set_forward_excuses_no_token_and_no_loss_that_is_not_told() {
        let deed = Deed::SetClock { from: instant(2.5), until: instant(2.5), by: 8 };
        let found = |token, first| found_on(StoreKind::Redis, &[deed], &with_a_second(2.6, token, first));
        assert!(found(6, vec![(3.1, lost(0, 3.1))]).is_empty());
        assert!(found(4, vec![(3.1, lost(0, 3.1))]).contains(&"M2"));
        assert!(found(6, vec![(4.0, lost(0, 3.1))]).contains(&"M4"));
        assert!(found(6, vec![]).contains(&"M4"));
        // Both had asked before either was granted the lock.
        let first = vec![(1.0, asked(0, None)), (1.1, granted(0, 5, 3.1)), (3.1, lost(0, 3.1))];
        let second = vec![(1.05, asked(0, Some(TTL))), (2.6, granted(0, 4, 4.6)), (3.5, returned(0, 4.6))];
        assert_eq!(found_on(StoreKind::Redis, &[deed], &[log(0, first), log(1, second)]), ["M2r"]);
    }

    #[test]
    fn a_leader_of_etcd_that_goes_on_excuses_two_holders_after_a_long_pause() {
        let paused = |from| Deed::PausedLeader { from: instant(from), until: instant(2.5) };
        assert!(told_after(2.6, StoreKind::Etcd, paused(1.0)).is_empty());
        assert!(told_after(2.4, StoreKind::Etcd, paused(1.0)).contains(&"M1"), "before it goes on");
        assert!(told_after(2.6, StoreKind::Etcd, paused(1.5)).contains(&"M1"), "for less than two thirds");
        assert!(told_after(2.6, StoreKind::Zookeeper, paused(1.0)).contains(&"M1"));
    }

    #[test]
    fn a_client_that_stood_still_is_excused_for_that_time_only() {
        let stall = What::Stalled { from: seconds(3.2) };
        let signal = vec![(3.4, stall.clone()), (8.0, lost(0, 3.1))];
        assert!(found(&with_a_second(3.5, 6, signal)).contains(&"M4"));
        let waits = |until| {
            let asked = asked(0, Some(Duration::from_secs(5)));
            found(&[log(0, vec![(1.0, asked), (3.4, stall.clone()), (until, What::TimedOut { op: 0 })])])
        };
        assert!(waits(8.0).is_empty());
        assert_eq!(waits(9.0), ["M5"]);
    }

    #[test]
    fn a_release_that_is_not_answered_in_time_is_found() {
        let release = |answered: Option<f64>, killed: Option<f64>| {
            let given_back = What::Returned { op: 0, dropped: false, until: seconds(3.1) };
            let mut lines = vec![(1.0, asked(0, None)), (1.1, granted(0, 5, 3.1)), (2.0, given_back)];
            lines.extend(answered.map(|at| (at, What::Released { op: 0, confirmed: true })));
            found(&[ClientLog { killed: killed.map(instant), ..log(0, lines) }])
        };
        assert!(release(Some(4.0), None).is_empty());
        assert_eq!(release(Some(23.0), None), ["hang"]);
        assert_eq!(release(None, None), ["hang"]);
        assert!(release(None, Some(3.0)).is_empty());
    }

    #[test]
    fn a_lock_that_none_of_several_waiters_gets_is_found_once_all_is_well() {
        let waits = |op, from: f64| {
            let asked = asked(op, Some(Duration::from_secs(10)));
            [(from, asked), (from + 10.0, What::TimedOut { op })]
        };
        let [one, other] = [(0, 0.0), (1, 1.0)].map(|(client, later)| {
            let froms = [100.0, 110.0, 120.0, 130.0].map(|from| from + later);
            log(client, (0..).zip(froms).flat_map(|(op, from)| waits(op, from)).collect())
        });
        assert!(found(&[one.clone(), other.clone()]).contains(&"M5"));
        // Somebody holds it all the time.
        let holds = vec![(99.0, asked(0, None)), (99.1, granted(0, 5, 150.0)), (149.0, returned(0, 150.0))];
        assert!(found(&[one, other, log(2, holds)]).is_empty());
    }

    #[test]
    fn an_acquisition_that_is_not_answered_in_time_is_found() {
        let wait = Some(Duration::from_secs(5));
        assert_eq!(found(&[log(0, vec![(1.0, asked(0, wait))])]), ["M5"], "it waits forever");
        let timed_out = |at| found(&[log(0, vec![(1.0, asked(0, wait)), (at, What::TimedOut { op: 0 })])]);
        assert!(timed_out(6.0).is_empty());
        assert_eq!(timed_out(9.0), ["M5"]);
        let tried = |at| found(&[log(0, vec![(1.0, asked(0, None)), (at, What::Refused { op: 0 })])]);
        assert!(tried(22.0).contains(&"hang"));
        assert!(!tried(2.0).contains(&"hang"));
    }

    #[test]
    fn who_waits_for_a_lock_that_nobody_can_have_is_found_once_all_is_well() {
        let wait = Some(Duration::from_secs(20));
        let waits = |from: f64| {
            let over = from + 20.0;
            found(&[log(0, vec![(from, asked(0, wait)), (over, What::TimedOut { op: 0 })])])
        };
        assert!(waits(50.0).is_empty());
        assert_eq!(waits(130.0), ["M5"]);
    }
}
