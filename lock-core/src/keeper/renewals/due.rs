//! A turn of the task of a client: losses, renewals and leaves that are due.

use std::sync::Arc;

use super::Renewals;
use crate::{BootTime, event_log::Event, hold::Loss, keeper::cleanup::ScheduledLeave};

/// How many are lost, and how many leave, before other tasks of the keeper have their turn: a loss wakes tasks, which is foreign code, and
/// a leave is logged, which takes longer.
const LOSSES_PER_TURN: usize = 512;
const LEAVES_PER_TURN: usize = 64;

impl Renewals {
    /// Does what is due, and returns when something is due next.
    pub(super) fn run_due(self: &Arc<Self>) -> BootTime {
        let now = self.keeper.now();
        let (events, all) = self.fire_losses(now);
        let mut leaving = Vec::new();
        let mut registry = self.registry.lock();
        let due = registry.due_ids(now);
        let renewed: Vec<_> = due.iter().filter_map(|id| registry.due_renewal(*id, now)).collect();
        // What is logged of a leave takes time, so all losses come before.
        if all {
            // Scheduled before the registry is unlocked: a close must not find neither.
            let leaves = due.iter().filter_map(|id| registry.due_leave(*id));
            leaving.extend(leaves.map(|leave| self.schedule(leave, now)));
        }
        let parked_until = registry.first_due().map_or(BootTime::FAR_FUTURE, |(due, _)| due);
        registry.parked_until = parked_until;
        drop(registry);
        self.renew_all(renewed);
        self.start_leaves(leaving);
        self.log(events);
        parked_until
    }

    /// Fires `lost()` of locks whose deadline has passed, and returns what to log of it, and whether these were all. Each lock is lost in
    /// its turn, and stays registered until then: whatever blocks this thread, the watchdog finds those that have not had theirs.
    fn fire_losses(&self, now: BootTime) -> (Vec<Event>, bool) {
        let ended = self.registry.lock().ended(now, LOSSES_PER_TURN);
        let losses = ended.iter().filter_map(|hold| hold.look().1);
        (losses.map(Loss::wake).collect(), ended.len() < LOSSES_PER_TURN)
    }

    /// Starts leaves. Where they are many, other tasks have their turn in between.
    fn start_leaves(&self, mut scheduled: Vec<ScheduledLeave>) {
        if scheduled.len() <= LEAVES_PER_TURN {
            return drop(scheduled);
        }
        self.keeper.spawn(async move {
            while !scheduled.is_empty() {
                drop(scheduled.drain(..scheduled.len().min(LEAVES_PER_TURN)));
                tokio::task::yield_now().await;
            }
        });
    }
}
