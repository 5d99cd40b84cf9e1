//! [`Slots`]: the room for members in one session.

use std::time::Duration;

use crate::BootTime;

/// How many members a session can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// So many at once.
    pub slots: usize,
    /// So many bytes of all their [sizes](super::PooledMember::size).
    pub bytes: usize,
}

/// The slots of a session.
#[derive(Debug)]
pub(super) struct Slots {
    taken: usize,
    bytes: usize,
    /// Slots of members that could not [give back](super::PooledMember::give_back) what they had. A session that has lost many is given
    /// fewer and fewer members, and is closed when the last one has left.
    lost: usize,
    /// When one was last taken or released.
    used: BootTime,
}

impl Slots {
    pub(super) fn new(opened: BootTime) -> Self {
        Self { taken: 0, bytes: 0, lost: 0, used: opened }
    }

    /// Takes one for a member of this size, if there is room.
    pub(super) fn take(&mut self, capacity: Capacity, size: usize, now: BootTime) -> bool {
        let free = self.taken + self.lost < capacity.slots && self.bytes + size <= capacity.bytes;
        if free {
            self.taken += 1;
            self.bytes += size;
            self.used = now;
        }
        free
    }

    /// Releases one that was taken for a member of this size. A member that has a session of its own has taken none.
    pub(super) fn release(&mut self, size: usize, now: BootTime) {
        self.taken = self.taken.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
        self.used = now;
    }

    /// The session is used, though not for a member.
    pub(super) fn mark_used(&mut self, now: BootTime) {
        self.used = now;
    }

    /// One that was released can never be taken again.
    pub(super) fn lose(&mut self) {
        self.lost += 1;
    }

    /// Whether none has been in use for so long, not even for a moment.
    pub(super) fn are_idle(&self, idle: Duration, now: BootTime) -> bool {
        self.taken == 0 && now.since(self.used) >= idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);
    const TWO: Capacity = Capacity { slots: 2, bytes: 100 };

    const fn at(seconds: u64) -> BootTime {
        BootTime::new(Duration::from_secs(seconds))
    }

    #[test]
    fn a_session_is_idle_only_long_after_its_last_slot_was_released() {
        let mut slots = Slots::new(at(0));
        assert!(!slots.are_idle(IDLE, at(59)), "nobody has come yet");
        assert!(slots.take(TWO, 1, at(59)) && slots.take(TWO, 1, at(59)) && !slots.take(TWO, 1, at(59)));
        slots.release(1, at(60));
        assert!(!slots.are_idle(IDLE, at(1_000)), "one is taken");
        slots.release(1, at(1_000));
        assert!(!slots.are_idle(IDLE, at(1_059)) && slots.are_idle(IDLE, at(1_060)));
    }

    /// The lock is held only for moments between two checks, so that no check ever finds a slot in use.
    #[test]
    fn a_session_in_light_use_is_never_idle() {
        let mut slots = Slots::new(at(0));
        for minute in 1..100 {
            let now = at(minute * 59);
            assert!(!slots.are_idle(IDLE, now));
            assert!(slots.take(TWO, 100, now));
            slots.release(100, now);
        }
        assert!(!slots.are_idle(IDLE, at(99 * 59)));
    }

    #[test]
    fn large_members_leave_slots_empty_until_others_are_released() {
        let capacity = Capacity { slots: 10, bytes: 100 };
        let mut slots = Slots::new(at(0));
        assert!(slots.take(capacity, 60, at(1)) && !slots.take(capacity, 41, at(1)));
        assert!(slots.take(capacity, 40, at(1)), "all of it can be used");
        assert!(!slots.take(capacity, 1, at(1)));
        slots.release(60, at(2));
        assert!(!slots.take(capacity, 61, at(2)) && slots.take(capacity, 60, at(2)));
    }

    /// A session does not grow forever, however often answers to deletes are lost.
    #[test]
    fn a_lost_slot_is_never_taken_again() {
        let mut slots = Slots::new(at(0));
        assert!(slots.take(TWO, 1, at(1)));
        slots.release(1, at(2));
        slots.lose();
        assert!(slots.take(TWO, 1, at(3)) && !slots.take(TWO, 1, at(3)));
        slots.release(1, at(4));
        assert!(slots.are_idle(Duration::ZERO, at(4)), "nobody has a slot in it");
    }
}
