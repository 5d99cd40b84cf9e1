//! What is told to those who wait or hold: hints to waiters, and alarms about entries that may be lost.

mod ahead_count;
mod notifier;
mod queue_view;
mod snapshot;
mod wait_state;

pub(crate) use self::{
    notifier::Notifier,
    queue_view::{EntriesAhead, QueueView},
    snapshot::Snapshot,
    wait_state::WaitState,
};
