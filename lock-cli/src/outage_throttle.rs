//! [`OutageThrottle`]: how often the user is told that the store is away.

use std::time::{Duration, Instant};

/// The first pause between two words about one outage. Each one after it is twice as long.
const FIRST: Duration = Duration::from_secs(10);

/// The longest.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// After such a time without a failure the next one is a new outage: who waits tries every few seconds.
const OVER: Duration = Duration::from_secs(30);

/// What was told of the outage that goes on, or of the last one.
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
    /// The store failed. Whether to tell the user.
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
        // Within it, once in an hour at the least.
        assert_eq!(told_at(200..30_000).windows(2).map(|two| two[1] - two[0]).max(), Some(3_600));
        // It was back.
        assert_eq!(told_at(30_100..30_115), [30_100, 30_110]);
    }
}
