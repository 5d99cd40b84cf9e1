//! [`Timing`]: when a command has to be told to stop, and when it has to be dead.

use std::time::Duration;

use distlock::AcquireOptions;

use crate::{exit::Exit, failure::Failure};

/// The shortest ttl that a command can be supervised with.
const LEAST_TTL: Duration = Duration::from_secs(1);

/// The longest default of the grace.
const MOST_GRACE: Duration = Duration::from_secs(10);

/// How long before the deadline of the lock the command is told to stop, and killed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
    /// Between SIGKILL and the deadline: processes take time to die.
    pub(crate) reserve: Duration,
    /// Whether the hold ends even if every renewal succeeds.
    pub(crate) has_max_hold: bool,
    ttl: Duration,
}

impl Timing {
    /// # Errors
    /// If the options leave no time for the grace.
    pub(crate) fn new(options: &AcquireOptions, grace: Option<Duration>) -> Result<Self, Failure> {
        let ttl = options.ttl;
        let wrong = |message: String| Err(Failure::new(Exit::USAGE, message));
        if ttl < LEAST_TTL {
            return wrong(format!(
                "--ttl of {ttl:?} is too short to stop a command in; use {LEAST_TTL:?} or more"
            ));
        }
        let held = options.max_hold.map_or(ttl, |max_hold| max_hold.min(ttl));
        if held < LEAST_TTL {
            return wrong(format!(
                "--max-hold of {held:?} is too short to stop a command in; use {LEAST_TTL:?} or more"
            ));
        }
        let grace = grace.unwrap_or_else(|| (held / 4).min(MOST_GRACE));
        // When the first renewal fails, two thirds of the ttl are left. Some of that is for trying again.
        if grace > held / 2 {
            return wrong(format!(
                "--grace of {grace:?} is too long; use half of the ttl and of --max-hold at the most"
            ));
        }
        let reserve = (held / 20).clamp(Duration::from_millis(25), Duration::from_millis(500));
        Ok(Self { grace, reserve, has_max_hold: options.max_hold.is_some(), ttl })
    }

    /// The same for the ttl that was granted: a store may have a limit, as ZooKeeper has for the timeout of a session.
    ///
    /// # Errors
    /// If that leaves no time for the grace.
    pub(crate) fn granted(
        options: &AcquireOptions,
        grace: Option<Duration>,
        ttl: Duration,
    ) -> Result<Self, Failure> {
        let granted = options.clone().ttl(ttl.min(options.ttl));
        Self::new(&granted, grace).map_err(|failure| {
            failure.hint(format!(
                "a higher limit of the store: it granted a ttl of {ttl:?} instead of {:?}",
                options.ttl
            ))
        })
    }

    /// How much of the lease is left when SIGTERM is sent.
    pub(crate) fn needed_to_stop(self) -> Duration {
        self.grace + self.reserve
    }

    /// How much of the lease has to be left when the command is started.
    pub(crate) fn needed_at_start(self) -> Duration {
        self.needed_to_stop().max(self.ttl / 2)
    }

    /// The longest time between two checks of the deadline, so that the watchdog hears of each renewal.
    pub(crate) fn check_interval(self) -> Duration {
        self.ttl / 6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn grace(ttl: Duration, max_hold: Option<Duration>) -> Duration {
        let mut options = AcquireOptions::new().ttl(ttl);
        options.max_hold = max_hold;
        Timing::new(&options, None).unwrap().grace
    }

    #[test]
    fn the_grace_is_a_quarter_of_what_there_is_and_ten_seconds_at_the_most() {
        assert_eq!(grace(s(20), None), s(5));
        assert_eq!(grace(s(300), None), s(10));
        assert_eq!(grace(s(30), Some(s(4))), s(1));
    }

    #[test]
    fn a_ttl_that_the_store_shortens_shortens_the_grace_and_a_longer_one_does_not_lengthen_it() {
        let options = AcquireOptions::new().ttl(s(30));
        for (granted, grace) in [(s(4), s(1)), (s(30), s(30) / 4), (s(32), s(30) / 4)] {
            assert_eq!(Timing::granted(&options, None, granted).unwrap().grace, grace);
        }
        let refused = Timing::granted(&options, Some(s(3)), s(4)).unwrap_err().to_string();
        assert!(refused.contains("3s is too long") && refused.contains("4s instead of 30s"), "{refused}");
    }

    #[test]
    fn there_is_time_to_renew_before_a_command_is_stopped() {
        for ttl in [1, 2, 5, 30, 600, 86_400].map(s) {
            for grace in [None, Some(ttl / 2), Some(Duration::ZERO)] {
                let timing = Timing::new(&AcquireOptions::new().ttl(ttl), grace).unwrap();
                // The first renewal is due when two thirds are left.
                assert!(timing.needed_to_stop() < ttl * 3 / 5, "{ttl:?} {grace:?}");
            }
        }
    }

    #[test]
    fn times_that_leave_no_room_are_refused() {
        let options = |ttl| AcquireOptions::new().ttl(ttl);
        for (options, grace) in [
            (options(Duration::from_millis(900)), None),
            (options(s(10)), Some(s(6))),
            (options(s(10)).max_hold(s(4)), Some(s(3))),
            (options(s(10)).max_hold(Duration::from_millis(500)), None),
        ] {
            assert!(Timing::new(&options, grace).is_err(), "{options:?} {grace:?}");
        }
    }
}
