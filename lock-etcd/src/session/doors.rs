//! [`Doors`]: behind which nothing is created any more that was sent before.

use std::collections::HashMap;

use super::slots::Slots;

/// The door by which a member comes: which of its session's, and as it was then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Door {
    pub(super) number: u32,
    /// The mod revision of its key. 0 if it was never shut.
    pub(super) shut: i64,
}

/// The doors of a session. Each belongs to one member at a time, and the next one finds it as the last one left it. So there are
/// no more than there were members at once.
#[derive(Debug, Default)]
pub(super) struct Doors {
    numbers: Slots,
    /// In which revision, for those that were shut.
    shut: HashMap<u32, i64>,
}

impl Doors {
    pub(super) fn take(&mut self) -> Door {
        let number = self.numbers.take();
        Door { number, shut: self.shut.get(&number).copied().unwrap_or_default() }
    }

    pub(super) fn give_back(&mut self, door: Door) {
        self.numbers.give_back(door.number);
    }

    /// One was shut, in this revision. An answer may come behind that of a later one.
    pub(super) fn was_shut(&mut self, door: Door, revision: i64) {
        let shut = self.shut.entry(door.number).or_default();
        *shut = (*shut).max(revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_that_was_shut_is_found_so_by_the_next_and_no_other_is() {
        let mut doors = Doors::default();
        let (one, other) = (doors.take(), doors.take());
        assert_eq!([one, other], [Door { number: 0, shut: 0 }, Door { number: 1, shut: 0 }]);
        doors.was_shut(one, 9);
        doors.was_shut(one, 8);
        doors.give_back(one);
        assert_eq!(doors.take(), Door { number: 0, shut: 9 });
        doors.give_back(other);
        assert_eq!(doors.take(), other);
    }

    #[test]
    fn there_are_no_more_doors_than_members_at_once() {
        let mut doors = Doors::default();
        for round in 1..100 {
            let all = [doors.take(), doors.take(), doors.take()];
            assert!(all.iter().all(|door| door.number < 3), "{all:?}");
            for door in all {
                doors.was_shut(door, round);
                doors.give_back(door);
            }
        }
        assert_eq!(doors.shut.len(), 3);
    }
}
