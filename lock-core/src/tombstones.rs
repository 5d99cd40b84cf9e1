//! [`Tombstones`]: entries that may not come back, and [`tombstone_ttl`]: for how long.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{BootTime, EntryId};

/// How long a create of an entry with this ttl can arrive after it was sent, and so how long a tombstone refuses it (PR08): for the ttl, and
/// for a minute at the least, which is longer than a store can be slow before clients give up their connections to it.
pub(crate) fn tombstone_ttl(ttl: Duration) -> Duration {
    ttl.max(Duration::from_secs(60))
}

/// Entries that left while a create of them was in doubt: they are not let in again (PR08).
///
/// A store that stalls adds one for each future that is dropped, and each acquire looks here while a pool or a store is locked. So a look
/// visits the tombstones that are too old, and no others.
#[derive(Debug, Default)]
pub(crate) struct Tombstones {
    until: BTreeMap<EntryId, BootTime>,
    /// The same, the oldest first.
    by_end: BTreeSet<(BootTime, EntryId)>,
}

impl Tombstones {
    /// Keeps an entry out for its ttl, and for a minute at the least.
    pub(crate) fn insert(&mut self, entry: EntryId, ttl: Duration, now: BootTime) {
        let until = now + tombstone_ttl(ttl);
        if let Some(before) = self.until.insert(entry, until) {
            self.by_end.remove(&(before, entry));
        }
        self.by_end.insert((until, entry));
    }

    /// Whether an entry is kept out. Drops tombstones that are too old.
    pub(crate) fn contains(&mut self, entry: EntryId, now: BootTime) -> bool {
        while let Some(&(until, old)) = self.by_end.first()
            && until <= now
        {
            self.by_end.pop_first();
            self.until.remove(&old);
        }
        self.until.contains_key(&entry)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const BRIEF: Duration = Duration::from_secs(1);

    fn at(seconds: u64) -> BootTime {
        BootTime::new(Duration::from_secs(seconds))
    }

    #[test]
    fn an_entry_is_kept_out_for_its_ttl_and_for_a_minute_at_the_least() {
        let (brief, long) = (EntryId::new(1), EntryId::new(2));
        let mut tombstones = Tombstones::default();
        tombstones.insert(brief, BRIEF, at(10));
        tombstones.insert(long, Duration::from_secs(100), at(10));
        assert!(tombstones.contains(brief, at(69)) && tombstones.contains(long, at(69)));
        assert!(!tombstones.contains(brief, at(70)) && tombstones.contains(long, at(109)));
        assert!(!tombstones.contains(long, at(110)));
        assert!(tombstones.until.is_empty() && tombstones.by_end.is_empty());
    }

    #[test]
    fn an_entry_that_leaves_again_is_kept_out_from_then_on() {
        let entry = EntryId::new(1);
        let mut tombstones = Tombstones::default();
        tombstones.insert(entry, BRIEF, at(10));
        tombstones.insert(entry, BRIEF, at(40));
        assert!(tombstones.contains(entry, at(99)) && !tombstones.contains(entry, at(100)));
        assert!(tombstones.by_end.is_empty());
    }

    #[test]
    fn a_look_among_many_tombstones_costs_about_as_much_as_among_few() {
        const LOOKS: u128 = 100;
        // A look at each of them costs thousands of times as much.
        const MOST: u32 = 100;
        // The least of several turns leaves out what else the machine did.
        let least = |kept: u128| {
            let mut tombstones = Tombstones::default();
            (0..kept).for_each(|id| tombstones.insert(EntryId::new(id), BRIEF, at(10)));
            let mut turn = || {
                let began = Instant::now();
                let found = (0..LOOKS).filter(|id| tombstones.contains(EntryId::new(*id), at(11))).count();
                assert_eq!(found as u128, kept.min(LOOKS));
                began.elapsed()
            };
            (0..5).map(|_| turn()).min().expect("there are turns")
        };
        let (few, many) = (least(10), least(100_000));
        assert!(many < few * MOST, "{many:?} for {LOOKS} looks among many, {few:?} among few");
    }
}
