//! [`Tombstones`]: entries that left, and must not come back.

use std::{collections::HashMap, time::Duration};

use lock_core::{BootTime, Clock, EntryId, SystemClock};

/// How long, at least, a late create is refused after its entry left while the create was in doubt.
const KEPT: Duration = Duration::from_secs(60);

/// Entries that left while a create was in doubt, and until when a create is refused (PR08). Only the process of an entry ever creates it,
/// so no other process has to know.
#[derive(Debug, Default)]
pub(crate) struct Tombstones(HashMap<EntryId, BootTime>);

impl Tombstones {
    /// Refuses creates of an entry from now on.
    pub(crate) fn add(&mut self, entry: EntryId, ttl: Duration) {
        let now = SystemClock.now();
        self.0.retain(|_, until| *until > now);
        self.0.insert(entry, now + ttl.max(KEPT));
    }

    /// Whether an entry has left while a create of it was in doubt.
    pub(crate) fn contains(&self, entry: EntryId) -> bool {
        !self.0.is_empty() && self.0.get(&entry).is_some_and(|until| *until > SystemClock.now())
    }
}
