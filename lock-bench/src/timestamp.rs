//! [`Timestamp`]: a time on the clock that all processes of the machine share.

use std::time::Duration;

use lock_core::{BootTime, Clock, SystemClock};
use serde::{Deserialize, Serialize};

/// Nanoseconds since the boot of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Timestamp(pub(crate) u64);

impl Timestamp {
    pub(crate) fn now() -> Self {
        SystemClock.now().into()
    }

    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn plus(self, duration: Duration) -> Self {
        (BootTime::new(Duration::from_nanos(self.0)) + duration).into()
    }
}

impl From<BootTime> for Timestamp {
    fn from(time: BootTime) -> Self {
        // 584 years fit.
        Self(u64::try_from(time.since_start().as_nanos()).unwrap_or(u64::MAX))
    }
}
