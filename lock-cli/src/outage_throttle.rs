//! [`OutageThrottle`]: how often an outage of the store is reported.

use std::time::{Duration, Instant};

/// The pause after the first report of an outage. Each later pause is twice as long.
const FIRST: Duration = Duration::from_secs(10);

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// A failure after so long without one begins a new outage: a waiter tries every few seconds.
const OVER: Duration = Duration::from_secs(30);

/// When the current outage, or the last one, was reported.
#[derive(Debug, Default)]
pub(crate) struct OutageThrottle {
    current: Option<Outage>,
}

#[derive(Debug)]
struct Outage {
    failed: Instant,
    told: Instant,
    pause: Duration,
}

impl OutageThrottle {
    /// To be called for each failure of the store. Returns whether to report it.
    pub(crate) fn should_report(&mut self, now: Instant) -> bool {
        match &mut self.current {
            Some(outage) if now.duration_since(outage.failed) < OVER => {
                outage.failed = now;
                if now.duration_since(outage.told) < outage.pause {
                    return false;
                }
                outage.told = now;
                outage.pause = (outage.pause * 2).min(LONGEST);
            }
            current => *current = Some(Outage { failed: now, told: now, pause: FIRST }),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_at_once_and_then_more_and_more_seldom() {
        let (mut outages, start) = (OutageThrottle::default(), Instant::now());
        let mut told_at = |seconds: std::ops::Range<u64>| -> Vec<u64> {
            seconds.filter(|&s| outages.should_report(start + Duration::from_secs(s))).collect()
        };
        assert_eq!(told_at(0..200), [0, 10, 30, 70, 150]);
        // A long outage is reported once an hour.
        assert_eq!(told_at(200..30_000).windows(2).map(|two| two[1] - two[0]).max(), Some(3_600));
        // A new outage, after a pause without failures.
        assert_eq!(told_at(30_100..30_115), [30_100, 30_110]);
    }
}
