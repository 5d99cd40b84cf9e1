//! [`Tenure`]: a lock that is held, and when it is to be renewed.

use std::time::Duration;

use crate::{BootTime, Creates, Hold};

/// A lock that is held.
#[derive(Clone, Debug)]
pub(crate) struct Tenure {
    pub(crate) hold: Hold,
    pub(crate) creates: Creates,
    pub(crate) renew: bool,
}

impl Tenure {
    pub(super) fn renews(&self) -> bool {
        self.renew && !self.hold.is_at_max_hold()
    }

    /// The next renewal: a third of the ttl after the last proof was sent. Where the store's proofs reach less far, a
    /// third of what is left. Without renewal, the deadline.
    pub(super) fn next_due(&self, now: BootTime) -> BootTime {
        let deadline = self.hold.deadline();
        if self.renews() {
            (deadline - self.hold.lease() * 2 / 3).max(now + deadline.since(now) / 3)
        } else {
            deadline
        }
    }

    /// How long one try may take: with this, three fit between the first and the deadline.
    pub(super) fn try_limit(&self) -> Duration {
        self.hold.lease() / 6
    }

    /// How long to wait after a failed try: short against the ttl, and not a flood where the store refuses at once.
    pub(super) fn retry_pause(&self) -> Duration {
        (self.hold.lease() / 20).clamp(Duration::from_millis(5), Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        Claim, Clock, Entry, EntryId, FencingToken, Keeper, LockName, hold::Grant, journal::Journal,
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

    fn tenure(ttl: Duration, valid_for: Duration, renew: bool, max_hold: Option<Duration>) -> Tenure {
        let name = LockName::new("a").expect("it is a name");
        let entry = Arc::new(Entry::new(name, EntryId::new(1), Claim::mutex(), ttl));
        let grant = Grant { token: FencingToken::new(1), ttl, valid_until: START + valid_for };
        let journal = Arc::new(Journal::new(&Keeper::shared()));
        let hold = Hold::new(entry, grant, Arc::new(Stopped), max_hold, journal);
        Tenure { hold, creates: Creates::Answered, renew }
    }

    #[test]
    fn a_renewal_is_due_at_a_third_of_the_ttl_or_of_what_a_shorter_proof_leaves() {
        // With a proof until 12 s, all but two thirds of the ttl have gone by at 4 s.
        assert_eq!(tenure(s(12), s(12), true, None).next_due(START), START + s(4));
        assert_eq!(
            tenure(s(12), s(12), true, None).next_due(START + s(1)),
            START + ms(4_666) + ms(1) * 2 / 3
        );
        // A proof that reaches for 6 s of 12 would have been due 2 s ago.
        assert_eq!(tenure(s(12), s(6), true, None).next_due(START), START + s(2));
        assert_eq!(tenure(s(12), s(6), true, None).next_due(START + s(7)), START + s(7));
    }

    #[test]
    fn without_renewal_or_at_max_hold_only_the_deadline_is_due() {
        assert_eq!(tenure(s(12), s(11), false, None).next_due(START), START + s(11));
        assert_eq!(tenure(s(12), s(11), true, Some(s(5))).next_due(START), START + s(5));
        assert!(!tenure(s(12), s(11), false, None).renews());
        assert!(!tenure(s(12), s(11), true, Some(s(5))).renews());
        assert!(tenure(s(12), s(11), true, Some(s(50))).renews());
    }

    #[test]
    fn three_tries_fit_between_the_first_and_the_deadline_and_the_pause_between_them_is_bounded() {
        assert_eq!(tenure(s(12), s(12), true, None).try_limit(), s(2));
        for (ttl, pause) in [(s(12), ms(600)), (ms(100), ms(5)), (s(60), s(1))] {
            assert_eq!(tenure(ttl, ttl, true, None).retry_pause(), pause, "at a ttl of {ttl:?}");
        }
    }
}
