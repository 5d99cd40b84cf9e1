//! [`Seats`]: how many entries share a session, and since when none does.

use std::time::Duration;

use lock_core::BootTime;

/// The seats of a session. Whoever takes one and whoever closes the session look at them under the lock of the session, so that it
/// is one decision: nobody sits in a session that is closed.
#[derive(Debug)]
pub(super) struct Seats {
    taken: usize,
    /// When one was last taken or given back.
    used: BootTime,
}

impl Seats {
    pub(super) fn new(opened: BootTime) -> Self {
        Self { taken: 0, used: opened }
    }

    /// Takes one, if fewer than `most` are taken.
    pub(super) fn take(&mut self, most: usize, now: BootTime) -> bool {
        let free = self.taken < most;
        if free {
            self.taken += 1;
            self.used = now;
        }
        free
    }

    pub(super) fn give_back(&mut self, now: BootTime) {
        self.taken = self.taken.saturating_sub(1);
        self.used = now;
    }

    /// Whether nobody has had one for so long, not even for a moment.
    pub(super) fn are_idle(&self, idle: Duration, now: BootTime) -> bool {
        self.taken == 0 && now.since(self.used) >= idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    const fn at(seconds: u64) -> BootTime {
        BootTime::new(Duration::from_secs(seconds))
    }

    #[test]
    fn there_are_so_many_and_a_session_is_idle_only_when_the_last_one_was_given_back_long_ago() {
        let mut seats = Seats::new(at(0));
        assert!(seats.take(2, at(1)) && seats.take(2, at(1)) && !seats.take(2, at(1)));
        seats.give_back(at(2));
        assert!(!seats.are_idle(IDLE, at(1_000)), "one is taken");
        seats.give_back(at(1_000));
        assert!(!seats.are_idle(IDLE, at(1_059)) && seats.are_idle(IDLE, at(1_060)));
    }

    /// Each lock is held for a moment between two looks, so that no look ever finds it taken.
    #[test]
    fn a_session_in_light_use_is_never_idle() {
        let mut seats = Seats::new(at(0));
        for minute in 1..100 {
            let now = at(minute * 59);
            assert!(!seats.are_idle(IDLE, now));
            assert!(seats.take(1, now));
            seats.give_back(now);
        }
        assert!(!seats.are_idle(IDLE, at(99 * 59)));
    }
}
