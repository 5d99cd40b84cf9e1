//! What the watchdog does for a client.

use std::{sync::PoisonError, time::Duration};

use super::{super::Ward, Renewals};
use crate::{BootTime, EntryId, telemetry};

/// What is due for so long is not late, but not done: nothing runs on the keeper.
const STANDSTILL: Duration = Duration::from_secs(1);

/// What was due first when the watchdog looked, and had been for too long.
#[derive(Debug)]
pub(super) struct Overdue {
    first: (BootTime, EntryId),
    seen: BootTime,
    told: bool,
}

impl Ward for Renewals {
    fn look(&self) -> BootTime {
        let now = self.keeper.now();
        let book = self.lock();
        let holds: Vec<_> = book.tenures().map(|tenure| tenure.hold.clone()).collect();
        let first = book.first_due().filter(|(due, _)| now.since(*due) >= STANDSTILL);
        drop(book);
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
        // It may only just have been let run, as we were: looked at once more, and told once.
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
