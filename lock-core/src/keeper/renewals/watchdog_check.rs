//! The check that the watchdog makes for a client: losses that the keeper has not announced, and whether the keeper stands still.

use std::{sync::PoisonError, time::Duration};

use super::{super::Watched, Renewals};
use crate::{BootTime, EntryId, telemetry};

/// What is overdue for so long is not late: nothing runs on the keeper.
const STANDSTILL: Duration = Duration::from_secs(1);

/// What was due first at a check, and had been for too long.
#[derive(Debug)]
pub(super) struct Overdue {
    first: (BootTime, EntryId),
    seen: BootTime,
    told: bool,
}

impl Watched for Renewals {
    fn check(&self) -> BootTime {
        let now = self.keeper.now();
        let registry = self.lock();
        let holds: Vec<_> = registry.held_leases().map(|lease| lease.hold.clone()).collect();
        let first = registry.first_due().filter(|(due, _)| now.since(*due) >= STANDSTILL);
        drop(registry);
        let mut next = BootTime::FAR_FUTURE;
        for hold in &holds {
            let (held, loss) = hold.look();
            if held.is_held() {
                next = next.min(hold.deadline());
            }
            if let Some(loss) = loss {
                loss.announce();
            }
        }
        let Some(first) = first else { return next };
        let mut overdue = self.overdue.lock().unwrap_or_else(PoisonError::into_inner);
        let known = overdue.take().filter(|known| known.first == first);
        let mut known = known.unwrap_or(Overdue { first, seen: now, told: false });
        // The process may just have been resumed: the second check tells, and only once.
        let tell = !known.told && now.since(known.seen) >= STANDSTILL;
        known.told |= tell;
        let again = (!known.told).then_some(known.seen + STANDSTILL);
        *overdue = Some(known);
        drop(overdue);
        if tell {
            telemetry::keeper_stands_still(now.since(first.0));
        }
        again.map_or(next, |again| next.min(again))
    }
}
