//! [`HeldLease`]: the lease of a lock that is held, and when to renew it.

use std::{sync::Arc, time::Duration};

use crate::{BootTime, Creates, Hold, Lease, Renewal};

/// The lease of a lock that is held.
#[derive(Clone, Debug)]
pub(crate) struct HeldLease {
    pub(crate) hold: Hold,
    pub(crate) creates: Creates,
    pub(crate) renew: bool,
}

impl HeldLease {
    /// What a store is asked to extend.
    pub(super) fn request(&self) -> Lease {
        Lease { entry: Arc::clone(self.hold.entry()), token: self.hold.token() }
    }

    /// Whether a renewal can move the deadline.
    pub(super) fn renews(&self) -> bool {
        self.renew && !self.hold.is_at_max_hold()
    }

    /// When the next renewal is due: a third of the ttl after the last request that proved the lease. Where the store proves less than
    /// the ttl, a third of what is left. Without renewal, the deadline.
    pub(super) fn next_due(&self, now: BootTime) -> BootTime {
        let deadline = self.hold.deadline();
        if self.renews() {
            (deadline - self.hold.lease() * 2 / 3).max(now + deadline.since(now) / 3)
        } else {
            deadline
        }
    }

    /// What the answer to a renewal changes. A lease that is not renewed is only asked about, after an alarm: nothing but the holder moves
    /// its deadline.
    pub(super) fn bounded(&self, renewal: Renewal) -> Renewal {
        match renewal {
            Renewal::Renewed { .. } if !self.renew => Renewal::Renewed { valid_until: self.hold.deadline() },
            renewal => renewal,
        }
    }

    /// How long one renewal may take: with this, three tries fit between the first and the deadline.
    pub(super) fn try_limit(&self) -> Duration {
        self.hold.lease() / 6
    }

    /// The pause after a failed renewal: short against the ttl, and long enough not to flood a store that refuses immediately.
    pub(super) fn retry_pause(&self) -> Duration {
        (self.hold.lease() / 20).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Claim, Clock, Entry, EntryId, FencingToken, Keeper, LockName, event_log::EventLog, hold::Grant,
    };

    #[derive(Debug)]
    struct Stopped;

    const START: BootTime = BootTime::new(s(1_000));

    impl Clock for Stopped {
        fn now(&self) -> BootTime {
            START
        }
    }

    const fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn held_lease(ttl: Duration, valid_for: Duration, renew: bool, max_hold: Option<Duration>) -> HeldLease {
        let name = LockName::new("a").expect("it is a name");
        let entry = Arc::new(Entry::new(name, EntryId::new(1), Claim::mutex(), ttl));
        let grant = Grant { token: FencingToken::new(1), ttl, valid_until: START + valid_for };
        let event_log = Arc::new(EventLog::new(&Keeper::shared()));
        let hold = Hold::new(entry, grant, Arc::new(Stopped), max_hold, event_log);
        HeldLease { hold, creates: Creates::Answered, renew }
    }

    #[test]
    fn a_renewal_is_due_at_a_third_of_the_ttl_or_of_a_shorter_proof() {
        // With a proof until 12 s, all but two thirds of the ttl have gone by at 4 s.
        assert_eq!(held_lease(s(12), s(12), true, None).next_due(START), START + s(4));
        assert_eq!(
            held_lease(s(12), s(12), true, None).next_due(START + s(1)),
            START + ms(4_666) + ms(1) * 2 / 3
        );
        // A proof that reaches for 6 s of 12 would have been due 2 s ago.
        assert_eq!(held_lease(s(12), s(6), true, None).next_due(START), START + s(2));
        assert_eq!(held_lease(s(12), s(6), true, None).next_due(START + s(7)), START + s(7));
    }

    #[test]
    fn without_renewal_or_at_max_hold_only_the_deadline_is_due() {
        assert_eq!(held_lease(s(12), s(11), false, None).next_due(START), START + s(11));
        assert_eq!(held_lease(s(12), s(11), true, Some(s(5))).next_due(START), START + s(5));
        assert!(!held_lease(s(12), s(11), false, None).renews());
        assert!(!held_lease(s(12), s(11), true, Some(s(5))).renews());
        assert!(held_lease(s(12), s(11), true, Some(s(50))).renews());
    }

    #[test]
    fn three_tries_fit_before_the_deadline_and_their_pauses_are_bounded() {
        assert_eq!(held_lease(s(12), s(12), true, None).try_limit(), s(2));
        for (ttl, pause) in [(s(12), ms(600)), (ms(100), ms(5)), (s(60), s(1))] {
            assert_eq!(held_lease(ttl, ttl, true, None).retry_pause(), pause, "at a ttl of {ttl:?}");
        }
    }
}
