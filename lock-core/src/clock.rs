//! [`BootTime`] and the [`Clock`] that tells it: time that goes on while the machine sleeps.
//!
//! A lease runs out on the server whether or not this machine is awake, so every deadline here is counted on a clock
//! that counts suspend. `std::time::Instant` does not on Linux.

use std::{
    fmt,
    ops::{Add, Sub},
    time::Duration,
};

/// An instant on a [`Clock`]: the time since some fixed point, usually the boot of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(Duration);

impl BootTime {
    /// An instant later than any that a clock will show.
    pub const FAR_FUTURE: Self = Self(Duration::MAX);

    /// An instant, as the time since the fixed point of its clock.
    #[must_use]
    pub const fn new(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// The time since the fixed point of the clock.
    #[must_use]
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// The time from `earlier` to this instant, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Stops at [`BootTime::FAR_FUTURE`] instead of overflowing.
impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// Stops at the clock's fixed point instead of going below it.
impl Sub<Duration> for BootTime {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

/// Tells the time that deadlines are counted in. A value, not a global: a simulation brings its own.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time now. Never goes back.
    fn now(&self) -> BootTime;
}

/// The machine's own clock.
///
/// | platform | clock | counts suspend |
/// |---|---|---|
/// | Linux | `CLOCK_BOOTTIME` | yes |
/// | macOS | `Instant` (`CLOCK_UPTIME_RAW`) | no |
/// | Windows | `Instant` (`QueryPerformanceCounter`) | yes |
///
/// Where suspend is not counted, a machine that slept past a lease can believe for a moment that it still holds it:
/// let the resource check the fencing token.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(target_os = "linux")]
impl Clock for SystemClock {
    fn now(&self) -> BootTime {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // The kernel's time since boot is not negative, and its nanoseconds are below 1 000 000 000.
        BootTime(
            Duration::from_secs(now.tv_sec.unsigned_abs()) + Duration::from_nanos(now.tv_nsec.unsigned_abs()),
        )
    }
}

#[cfg(not(target_os = "linux"))]
impl Clock for SystemClock {
    fn now(&self) -> BootTime {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        BootTime(START.get_or_init(std::time::Instant::now).elapsed())
    }
}

/// How much earlier than the store a client calls a lease dead: the larger of 2 ms and 1 % of it.
///
/// It pays for clocks that differ in rate by up to 1 %, and for the store's millisecond ticks.
#[must_use]
pub fn margin(lease: Duration) -> Duration {
    (lease / 100).max(Duration::from_millis(2))
}

/// Until when a lease that was proved alive by a request sent at `sent` may be relied on.
///
/// `asked` is the ttl that the entry wants, `granted` the one that the store gave; the smaller one counts.
///
/// ```
/// # use std::time::Duration;
/// use lock_core::{BootTime, valid_until};
///
/// let sent = BootTime::new(Duration::from_secs(100));
/// let ttl = Duration::from_secs(10);
/// assert_eq!(valid_until(sent, ttl, ttl), sent + Duration::from_millis(9_900));
/// ```
#[must_use]
pub fn valid_until(sent: BootTime, asked: Duration, granted: Duration) -> BootTime {
    let lease = asked.min(granted);
    sent + lease.saturating_sub(margin(lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_clock_is_the_one_that_counts_suspend() {
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec.unsigned_abs();
        let ours = SystemClock.now().since_start().as_secs();
        assert!(ours.abs_diff(boot) <= 1, "{ours} is not the boot time {boot}");
    }

    #[test]
    fn the_margin_is_two_milliseconds_or_one_percent() {
        assert_eq!(margin(Duration::from_millis(100)), Duration::from_millis(2));
        assert_eq!(margin(Duration::from_secs(30)), Duration::from_millis(300));
    }

    #[test]
    fn instants_saturate_at_both_ends() {
        assert_eq!(BootTime::FAR_FUTURE + Duration::from_secs(1), BootTime::FAR_FUTURE);
        assert_eq!(BootTime::new(Duration::ZERO) - Duration::from_secs(1), BootTime::new(Duration::ZERO));
    }

    #[test]
    fn a_shorter_grant_shortens_the_deadline_and_a_longer_one_changes_nothing() {
        let (sent, s) = (BootTime::new(Duration::ZERO), Duration::from_secs);
        assert_eq!(valid_until(sent, s(10), s(5)), valid_until(sent, s(5), s(5)));
        assert_eq!(valid_until(sent, s(5), s(10)), valid_until(sent, s(5), s(5)));
    }
}
