//! The check that the watchdog makes for a client: losses that the keeper did not announce, and whether the keeper is blocked.

use std::sync::Arc;

use super::Renewals;
use crate::{
    BootTime,
    event_log::Event,
    hold::Loss,
    keeper::{log_writer::LogWriter, standstill::Standstill, watchdog::Watched},
};

impl Watched for Renewals {
    fn check(&self, log_writer: &Arc<LogWriter>) -> BootTime {
        let now = self.keeper.now();
        let registry = self.registry.lock();
        let holds: Vec<_> = registry.held_leases().map(|lease| lease.hold.clone()).collect();
        let first = registry.first_due().filter(|(due, _)| now.since(*due) >= Standstill::LIMIT);
        drop(registry);
        let (mut next, mut events) = (BootTime::FAR_FUTURE, Vec::new());
        for hold in &holds {
            let (held, loss) = hold.look();
            if held.is_held() {
                next = next.min(hold.deadline());
            }
            events.extend(loss.map(Loss::wake));
        }
        if let Some(first) = first {
            let (tell, again) = self.standstill.lock().note(first, now);
            next = again.map_or(next, |again| next.min(again));
            events.extend(tell.then(|| Event::KeeperStandsStill { overdue: now.since(first.0) }));
        }
        self.event_log.note_on(log_writer, events);
        next
    }
}
