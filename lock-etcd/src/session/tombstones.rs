//! [`Tombstones`]: once a tombstone is set, creates that were sent before have no effect.

use std::collections::HashMap;

use super::numbers::Numbers;

/// The tombstone that a member takes: its number in the session, and its state when the member took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tombstone {
    pub(super) number: u32,
    /// The mod revision of its key; 0 if it was never set.
    pub(super) set_at: i64,
}

/// The tombstones of a session. Each belongs to one member at a time, and the next member finds it as the last one left it. So there are
/// no more tombstones than there were members at once.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    numbers: Numbers,
    /// The revision of each tombstone that was set.
    set_at: HashMap<u32, i64>,
}

impl Tombstones {
    pub(super) fn take(&mut self) -> Tombstone {
        let number = self.numbers.take();
        Tombstone { number, set_at: self.set_at.get(&number).copied().unwrap_or_default() }
    }

    pub(super) fn give_back(&mut self, tombstone: Tombstone) {
        self.numbers.give_back(tombstone.number);
    }

    /// Records that a tombstone was set in this revision. Answers may come in another order than their revisions.
    pub(super) fn mark_set(&mut self, tombstone: Tombstone, revision: i64) {
        let set_at = self.set_at.entry(tombstone.number).or_default();
        *set_at = (*set_at).max(revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_that_was_set_is_found_so_by_its_next_member_only() {
        let mut tombstones = Tombstones::default();
        let (one, other) = (tombstones.take(), tombstones.take());
        assert_eq!([one, other], [Tombstone { number: 0, set_at: 0 }, Tombstone { number: 1, set_at: 0 }]);
        tombstones.mark_set(one, 9);
        tombstones.mark_set(one, 8);
        tombstones.give_back(one);
        assert_eq!(tombstones.take(), Tombstone { number: 0, set_at: 9 });
        tombstones.give_back(other);
        assert_eq!(tombstones.take(), other);
    }

    #[test]
    fn there_are_no_more_tombstones_than_members_at_once() {
        let mut tombstones = Tombstones::default();
        for round in 1..100 {
            let all = [tombstones.take(), tombstones.take(), tombstones.take()];
            assert!(all.iter().all(|tombstone| tombstone.number < 3), "{all:?}");
            for tombstone in all {
                tombstones.mark_set(tombstone, round);
                tombstones.give_back(tombstone);
            }
        }
        assert_eq!(tombstones.set_at.len(), 3);
    }
}
