//! [`VirtualClock`]: the time of a paused runtime, as a clock that may run fast or slow.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{BootTime, Clock, sync::Mutex};

/// What all virtual clocks show at their start: no zero, so that instants before it exist.
const ORIGIN: BootTime = BootTime::new(Duration::from_secs(1_000));

const MILLION: i128 = 1_000_000;

/// The time of tokio's paused runtime, and what the machines slept. Clones, and clocks of another
/// [rate](Self::with_rate), share it.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    shared: Arc<SharedTime>,
    /// How many millionths it runs fast.
    fast_by: i32,
}

#[derive(Debug)]
struct SharedTime {
    start: Instant,
    slept: Mutex<Duration>,
}

impl VirtualClock {
    /// A clock that starts now, at the right rate.
    #[must_use]
    pub fn new() -> Self {
        Self { shared: Arc::new(SharedTime { start: Instant::now(), slept: Mutex::default() }), fast_by: 0 }
    }

    /// The same time as seen on a clock that runs fast by so many millionths, or slow if it is negative: 10 000 is 1 %.
    #[must_use]
    pub fn with_rate(&self, millionths: i32) -> Self {
        Self { shared: Arc::clone(&self.shared), fast_by: millionths }
    }

    /// Lets time go by for all clocks that share it while no timer counts it, as when the machines sleep.
    pub fn suspend(&self, time: Duration) {
        *self.shared.slept.lock() += time;
    }

    /// What `other`, a clock of the same simulation, shows when this one shows `instant`.
    #[must_use]
    pub fn on(&self, other: &Self, instant: BootTime) -> BootTime {
        if instant == BootTime::FAR_FUTURE {
            return instant;
        }
        let shown = nanos(instant) - nanos(ORIGIN);
        let elapsed = shown * MILLION / (MILLION + i128::from(self.fast_by));
        other.shows(elapsed)
    }

    /// What it shows after this number of true nanoseconds.
    fn shows(&self, elapsed: i128) -> BootTime {
        let shown = nanos(ORIGIN) + elapsed * (MILLION + i128::from(self.fast_by)) / MILLION;
        // A simulation is far shorter than the 584 years that fit; what is before the fixed point is cut off there.
        BootTime::new(Duration::from_nanos(u64::try_from(shown.max(0)).unwrap_or(u64::MAX)))
    }
}

fn nanos(instant: BootTime) -> i128 {
    // The nanoseconds of any duration fit 94 bits.
    i128::try_from(instant.since_start().as_nanos()).unwrap_or(i128::MAX)
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> BootTime {
        let slept = *self.shared.slept.lock();
        let elapsed = Instant::now().saturating_duration_since(self.shared.start) + slept;
        self.shows(nanos(BootTime::new(elapsed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_runs_at_its_rate_and_counts_what_the_machine_slept() {
        let right = VirtualClock::new();
        let (fast, slow) = (right.with_rate(10_000), right.with_rate(-10_000));
        tokio::time::sleep(s(100)).await;
        right.suspend(s(100));
        assert_eq!(right.now(), ORIGIN + s(200));
        assert_eq!(fast.now(), ORIGIN + s(202));
        assert_eq!(slow.now(), ORIGIN + s(198));
    }

    #[tokio::test(start_paused = true)]
    async fn an_instant_of_one_clock_is_found_on_another() {
        let right = VirtualClock::new();
        let slow = right.with_rate(-10_000);
        assert_eq!(slow.on(&right, ORIGIN + s(99)), ORIGIN + s(100));
        assert_eq!(right.on(&slow, ORIGIN + s(100)), ORIGIN + s(99));
        assert_eq!(slow.on(&right, BootTime::FAR_FUTURE), BootTime::FAR_FUTURE);
    }
}
