//! What is told to those who wait or hold: hints to waiters, and alarms about entries that may be lost.

mod notifier;
mod wait_state;

pub(crate) use self::{notifier::Notifier, wait_state::WaitState};
