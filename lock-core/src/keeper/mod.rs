//! The keeper: one thread that renews, watches deadlines and cleans up, whatever the user's runtime does.

mod cleanup;
mod handle;
mod held_lease;
mod leave_lanes;
mod log_writer;
mod pending_leave;
mod registry;
mod renewals;
mod restart_on_panic;
mod standstill;
mod timers;
mod watchdog;

pub(crate) use self::{
    cleanup::{Cleanup, ScheduledLeave},
    handle::WeakKeeper,
    held_lease::HeldLease,
    log_writer::LogWriter,
    renewals::Renewals,
};
pub use self::{handle::Keeper, timers::Sleep};
