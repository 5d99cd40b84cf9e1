//! [`check`]: what must not be in the history of a name.

use std::time::Duration;

use lock_core::BootTime;
use lock_engine_tests::history::{self, AcquireMode, Acquisition, History, Op, Violation};

/// How long a try may take. It is answered or fails within some time limits of the store: for connecting, for a command, and for one more.
const TRY: Duration = Duration::from_secs(20);

/// Runs the checkers of the engine, and one for tries, which have no bound of their own there.
///
/// | found | id |
/// |---|---|
/// | two hold a lock at once, before the deadline and the lost signal of the first | M1 |
/// | a try is refused where nobody can have been in the way | M1b |
/// | a token does not grow | M2, M2r |
/// | the lost signal comes late, or after the next grant | M4 |
/// | an answer never comes, comes late, or waits for a lock that nobody can have | M5, hang |
pub(crate) fn check(history: &History) -> Vec<Violation> {
    let acquisitions = history.acquisitions();
    let hanging = acquisitions.iter().filter(|acquisition| hangs(acquisition));
    let what = |op: Op| format!("{op} is a try, and takes longer than {TRY:?}");
    let hanging = hanging.map(|acquisition| Violation { id: "hang", what: what(acquisition.op) });
    history::check(history).into_iter().chain(hanging).collect()
}

fn hangs(acquisition: &Acquisition) -> bool {
    let late = |answered: BootTime| {
        answered > acquisition.invoked + TRY && !acquisition.is_disturbed(acquisition.invoked, answered)
    };
    acquisition.mode == AcquireMode::Try && acquisition.answered.is_some_and(late)
}

#[cfg(test)]
mod tests {
    use lock_core::{FencingToken, Kind};

    use super::*;
    use crate::{
        history::{ClientLog, Frame, histories},
        record::{Line, What},
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
        let frame = Frame { calm: instant(100.0), end: instant(160.0), sessions: false };
        let histories = histories(logs, frame);
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
        assert!(found(&[log(0, begin), log(1, second)]).is_empty());
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
