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

/// Entries that left while a create of them was in doubt: they are not let in again (PR08). For backends whose creates all pass through one
/// process, or one client.
///
/// A store that stalls adds one for each future that is dropped, and they are added and looked for while a pool or a store is locked. So only
/// those that are too old are visited.
#[derive(Debug, Default)]
pub struct Tombstones {
    until: BTreeMap<EntryId, BootTime>,
    /// The same, the oldest first.
    by_end: BTreeSet<(BootTime, EntryId)>,
}

impl Tombstones {
    /// Keeps an entry out for its ttl, and for a minute at the least.
    pub fn insert(&mut self, entry: EntryId, ttl: Duration, now: BootTime) {
        let until = now + tombstone_ttl(ttl);
        if let Some(before) = self.until.insert(entry, until) {
            self.by_end.remove(&(before, entry));
        }
        self.by_end.insert((until, entry));
    }

    /// Whether an entry is kept out. Drops tombstones that are too old.
    pub fn contains(&mut self, entry: EntryId, now: BootTime) -> bool {
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

    /// How many tombstones there are.
    const FEW: u128 = 10;
    const MANY: u128 = 100_000;

    /// How often each is looked for, or added, in a turn.
    const TIMES: u128 = 100;

    /// How many times as long it may take among many. To visit each of them takes about a thousand times as long.
    const MOST: u32 = 100;

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

    /// The time of `turn` on so many tombstones. The least of several leaves out what else the machine did.
    fn least_time(kept: u128, turn: impl Fn(&mut Tombstones)) -> Duration {
        let mut tombstones = Tombstones::default();
        (0..kept).for_each(|id| tombstones.insert(EntryId::new(id), BRIEF, at(10)));
        let mut time = || {
            let began = Instant::now();
            turn(&mut tombstones);
            began.elapsed()
        };
        (0..5).map(|_| time()).min().expect("there are turns")
    }

    #[test]
    fn a_look_among_many_tombstones_costs_about_as_much_as_among_few() {
        let least = |kept: u128| {
            least_time(kept, |tombstones| {
                let found = (0..TIMES).filter(|id| tombstones.contains(EntryId::new(*id), at(11))).count();
                assert_eq!(found as u128, kept.min(TIMES));
            })
        };
        let (few, many) = (least(FEW), least(MANY));
        assert!(many < few * MOST, "{many:?} for {TIMES} looks among many, {few:?} among few");
    }

    #[test]
    fn adding_to_many_tombstones_costs_about_as_much_as_adding_to_few() {
        let least = |kept| {
            least_time(kept, |tombstones| {
                (0..TIMES).for_each(|id| tombstones.insert(EntryId::new(id), BRIEF, at(11)));
            })
        };
        let (few, many) = (least(FEW), least(MANY));
        assert!(many < few * MOST, "{many:?} for {TIMES} more than many, {few:?} for as many more than few");
    }
}
