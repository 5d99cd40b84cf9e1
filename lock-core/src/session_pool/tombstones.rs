//! [`Tombstones`]: entries that may not come back.

use std::{collections::BTreeMap, time::Duration};

use crate::{BootTime, EntryId, tombstone::tombstone_ttl};

/// Entries that left while a create of them was in doubt: this process does not let them in again (PR08).
#[derive(Debug, Default)]
pub(super) struct Tombstones(BTreeMap<EntryId, BootTime>);

impl Tombstones {
    /// Keeps an entry out for its ttl, and for a minute at the least.
    pub(super) fn insert(&mut self, entry: EntryId, ttl: Duration, now: BootTime) {
        self.0.insert(entry, now + tombstone_ttl(ttl));
    }

    /// Whether an entry is kept out. Drops tombstones that are too old.
    pub(super) fn contains(&mut self, entry: EntryId, now: BootTime) -> bool {
        if self.0.is_empty() {
            return false;
        }
        self.0.retain(|_, until| *until > now);
        self.0.contains_key(&entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_kept_out_for_its_ttl_and_for_a_minute_at_the_least() {
        let (brief, long) = (EntryId::new(1), EntryId::new(2));
        let at = |seconds| BootTime::new(Duration::from_secs(seconds));
        let mut tombstones = Tombstones::default();
        tombstones.insert(brief, Duration::from_secs(1), at(10));
        tombstones.insert(long, Duration::from_secs(100), at(10));
        assert!(tombstones.contains(brief, at(69)) && tombstones.contains(long, at(69)));
        assert!(!tombstones.contains(brief, at(70)) && tombstones.contains(long, at(109)));
        assert!(!tombstones.contains(long, at(110)) && tombstones.0.is_empty());
    }
}
