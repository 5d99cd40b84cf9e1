//! [`Standstill`]: notices that the keeper is blocked.

use std::time::Duration;

use crate::{BootTime, EntryId};

/// What was overdue at the last checks, for as long as it stays the same.
#[derive(Debug, Default)]
pub(super) struct Standstill {
    overdue: Option<Overdue>,
}

#[derive(Debug)]
struct Overdue {
    first: (BootTime, EntryId),
    seen: BootTime,
    told: bool,
}

impl Standstill {
    /// A running keeper is never later than this.
    pub(super) const LIMIT: Duration = Duration::from_secs(1);

    /// Notes what is due first, and overdue by at least [`LIMIT`](Self::LIMIT). Returns whether that has to be logged, and when to check
    /// again.
    pub(super) fn note(&mut self, first: (BootTime, EntryId), now: BootTime) -> (bool, Option<BootTime>) {
        let known = self.overdue.take().filter(|known| known.first == first);
        let mut known = known.unwrap_or(Overdue { first, seen: now, told: false });
        // The process may just have been resumed: only the second check tells, and only once.
        let tell = !known.told && now.since(known.seen) >= Self::LIMIT;
        known.told |= tell;
        let again = (!known.told).then_some(known.seen + Self::LIMIT);
        self.overdue = Some(known);
        (tell, again)
    }
}
