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
