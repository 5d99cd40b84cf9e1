//! Times as the file stores them: nanoseconds since the boot.

use std::time::Duration;

use lock_core::{Clock, SystemClock};

/// The current time, as the file stores it.
pub(crate) fn now() -> i64 {
    nanos(SystemClock.now().since_start())
}

/// A duration in nanoseconds, of which 292 years fit.
pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
