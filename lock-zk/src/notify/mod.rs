//! Notifications: hints to waiters. Alarms about entries that may have been lost go through [`lock_core::Notifier`].

mod wait_state;

pub(crate) use self::wait_state::WaitState;
