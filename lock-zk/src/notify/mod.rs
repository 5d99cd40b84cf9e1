//! Notifications: hints to waiters, and alarms about entries that may have been lost.

mod notifier;
mod wait_state;

pub(crate) use self::{notifier::Notifier, wait_state::WaitState};
