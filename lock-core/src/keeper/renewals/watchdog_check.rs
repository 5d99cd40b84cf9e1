//! The check that the watchdog makes for a client: losses that the keeper did not announce, and whether the keeper is blocked.

use super::Renewals;
use crate::{
    BootTime,
    keeper::{standstill::Standstill, watchdog::Watched},
    telemetry,
};

impl Watched for Renewals {
    fn check(&self) -> BootTime {
        let now = self.keeper.now();
        let registry = self.registry.lock();
        let holds: Vec<_> = registry.held_leases().map(|lease| lease.hold.clone()).collect();
        let first = registry.first_due().filter(|(due, _)| now.since(*due) >= Standstill::LIMIT);
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
        let (tell, again) = self.standstill.lock().note(first, now);
        if tell {
            telemetry::keeper_stands_still(now.since(first.0));
        }
        again.map_or(next, |again| next.min(again))
    }
}
