//! [`SessionSettings`]: the part of the configuration that a session needs.

use std::{sync::Arc, time::Duration};

use lock_core::Keeper;

pub(super) struct SessionSettings {
    pub(super) keeper: Keeper,
    pub(super) tick: Duration,
    pub(super) command_timeout: Duration,
    /// The address of the ensemble, for messages.
    pub(super) address: Arc<str>,
}
