//! Times as they stand in the file: nanoseconds since the boot.

use std::time::Duration;

use lock_core::{Clock, SystemClock};

/// The time, as it stands in the file.
pub(crate) fn now() -> i64 {
    nanos(SystemClock.now().since_start())
}

/// 292 years fit.
pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
