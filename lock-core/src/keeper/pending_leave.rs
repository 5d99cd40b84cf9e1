//! [`PendingLeave`]: an entry that has to leave its queue, and is not confirmed to have left.

use std::sync::Arc;

use crate::{BootTime, Creates, Entry, tombstones::tombstone_ttl};

/// An entry that has to leave its queue, and is not confirmed to have left.
#[derive(Clone, Debug)]
pub(crate) struct PendingLeave {
    pub(crate) entry: Arc<Entry>,
    pub(super) creates: Creates,
    /// When nothing of it can be in the store any more, if nobody leaves for it and its lease is not shared.
    pub(crate) free_by: BootTime,
}

impl PendingLeave {
    /// `lease_end` is when its lease ends in the store, counted from the last request.
    pub(super) fn new(entry: Arc<Entry>, creates: Creates, lease_end: BootTime) -> Self {
        let free_by = match creates {
            Creates::Answered => lease_end,
            // PR08: a create that arrives late begins a lease.
            Creates::InDoubt => lease_end + tombstone_ttl(entry.ttl),
        };
        Self { entry, creates, free_by }
    }
}
