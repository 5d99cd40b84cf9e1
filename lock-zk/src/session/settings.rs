//! [`SessionSettings`]: what a session needs of the configuration.

use std::{sync::Arc, time::Duration};

use lock_core::Keeper;

pub(super) struct SessionSettings {
    pub(super) keeper: Keeper,
    pub(super) tick: Duration,
    pub(super) command_timeout: Duration,
    /// Where the ensemble is, for people.
    pub(super) address: Arc<str>,
}
