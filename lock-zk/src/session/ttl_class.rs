//! The classes of ttl: few, so that few sessions suffice (PR30).

use std::time::Duration;

/// With fewer ticks there is no time for two heartbeats of which the second confirms the first (PR28).
const LEAST: u32 = 6;

/// The session timeout for an entry with this ttl: six or eight ticks, or a power of two times that. It exceeds the ttl by at most a
/// half, except for short ttls.
pub(super) fn timeout(ttl: Duration, tick: Duration) -> Duration {
    // Both are bounded: the ttl is at most a day, and the tick at least 10 ms.
    let wanted = u32::try_from(ttl.as_nanos().div_ceil(tick.as_nanos().max(1))).unwrap_or(u32::MAX / 4);
    let mut six = LEAST;
    while six < wanted {
        let eight = six / 3 * 4;
        if eight >= wanted {
            return tick * eight;
        }
        six *= 2;
    }
    tick * six
}

#[cfg(test)]
mod tests {
    use lock_core::margin;

    use super::*;
    use crate::{client::silence, session::period};

    #[test]
    fn a_timeout_is_never_shorter_than_the_ttl_and_little_longer() {
        let s = Duration::from_secs;
        for (ttl, timeout_wanted) in
            [(0, 12), (1, 12), (12, 12), (13, 16), (17, 24), (30, 32), (33, 48), (65, 96)]
        {
            assert_eq!(timeout(s(ttl), s(2)), s(timeout_wanted), "{ttl} s");
        }
        let (day, tick) = (s(24 * 60 * 60), Duration::from_millis(10));
        assert!((day..day * 3 / 2).contains(&timeout(day, tick)));
        assert_eq!(timeout(Duration::from_millis(12_001), s(2)), s(16));
    }

    /// PR30.
    #[test]
    fn a_day_of_ttls_makes_few_classes() {
        let classes: std::collections::BTreeSet<_> =
            (1..86_400).map(|ttl| timeout(Duration::from_secs(ttl), Duration::from_secs(2))).collect();
        assert!(classes.len() < 30, "{}", classes.len());
    }

    /// About `silence` alone, which is what a connection may be silent only where `command_timeout` and `connect_timeout` are long.
    /// Answers that take three tenths of the timeout are the slowest that a session of six ticks survives: see `Heartbeat`.
    #[test]
    fn half_of_a_session_is_long_enough_for_late_answers_and_to_move() {
        let tick = Duration::from_secs(2);
        for ttl in (1..600).map(Duration::from_secs) {
            let timeout = timeout(ttl, tick);
            let period = period(tick, timeout);
            assert!(silence(timeout) > period + timeout * 3 / 10, "given up at {timeout:?}");
            // The proof that counts is at most two heartbeats older than a silence that begins now.
            let left = timeout.checked_sub(margin(timeout) + period * 2 + silence(timeout));
            assert!(left.is_some_and(|left| left >= timeout / 10), "{left:?} left of {timeout:?}");
        }
    }
}
