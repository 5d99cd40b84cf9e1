//! [`Slots`]: how many entries a session has room for.

use std::time::Duration;

use lock_core::BootTime;

/// The room in one session.
#[derive(Clone, Copy, Debug)]
struct Capacity {
    slots: usize,
    bytes: usize,
}

/// When a session ends, all its nodes are deleted in one transaction, which contains their paths and has to fit into a message between
/// servers. If it does not, the servers stop and do not start again (ZOOKEEPER-4306). So the capacity is less than half of the default
/// limit: beside the entries that are counted there may be nodes that are being deleted or that were created twice.
const CAPACITY: Capacity = Capacity { slots: 1_000, bytes: 500_000 };

/// The longest message of servers: the default of `jute.maxbuffer`.
const MOST_SENT: usize = 0xf_ffff;

const _: () = assert!(CAPACITY.bytes * 2 < MOST_SENT);

/// The size of a node in that transaction, from the length of its path without the sequence: the sequence has up to 11 bytes, and the
/// length before the path has 4.
pub(super) const fn size(path: usize) -> usize {
    path + 11 + 4
}

/// The slots of a session. They are reserved under the lock of the session, under which it is also closed when idle: so no slot is ever
/// in use in a session that was closed as idle.
#[derive(Debug)]
pub(super) struct Slots {
    capacity: Capacity,
    taken: usize,
    bytes: usize,
    /// When one was last taken or released.
    used: BootTime,
}

impl Slots {
    pub(super) fn new(opened: BootTime) -> Self {
        Self::of(CAPACITY, opened)
    }

    fn of(capacity: Capacity, opened: BootTime) -> Self {
        Self { capacity, taken: 0, bytes: 0, used: opened }
    }

    /// Takes one for a node of this [size], if there is room. The longest path takes less than a thirtieth of an empty session.
    pub(super) fn take(&mut self, size: usize, now: BootTime) -> bool {
        let free = self.taken < self.capacity.slots && self.bytes + size <= self.capacity.bytes;
        if free {
            self.taken += 1;
            self.bytes += size;
            self.used = now;
        }
        free
    }

    /// Releases one that was taken for a node of this size.
    pub(super) fn release(&mut self, size: usize, now: BootTime) {
        self.taken = self.taken.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
        self.used = now;
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

    const fn at(seconds: u64) -> BootTime {
        BootTime::new(Duration::from_secs(seconds))
    }

    #[test]
    fn a_session_is_idle_only_long_after_its_last_slot_was_released() {
        let mut slots = Slots::of(Capacity { slots: 2, bytes: 100 }, at(0));
        assert!(slots.take(1, at(1)) && slots.take(1, at(1)) && !slots.take(1, at(1)));
        slots.release(1, at(2));
        assert!(!slots.are_idle(IDLE, at(1_000)), "one is taken");
        slots.release(1, at(1_000));
        assert!(!slots.are_idle(IDLE, at(1_059)) && slots.are_idle(IDLE, at(1_060)));
    }

    /// ZOOKEEPER-4306.
    #[test]
    fn long_paths_leave_slots_empty_until_others_are_given_back() {
        let mut slots = Slots::of(Capacity { slots: 10, bytes: 100 }, at(0));
        assert!(slots.take(60, at(1)) && !slots.take(41, at(1)));
        assert!(slots.take(40, at(1)), "all of it can be used");
        assert!(!slots.take(1, at(1)));
        slots.release(60, at(2));
        assert!(!slots.take(61, at(2)) && slots.take(60, at(2)));
    }

    /// The format of the servers: the number of paths, then each path behind its length.
    #[test]
    fn what_is_counted_is_no_less_than_what_the_servers_send() {
        let path = "/distlock/q1/job/0123456789abcdef0123456789abcdef-m-";
        for sequence in ["0000000000", "2147483646", "-2147483648"] {
            assert!(4 + path.len() + sequence.len() <= size(path.len()));
        }
        // A chroot of 1 KiB, and a name of 4 KiB in which each byte is escaped to three.
        let longest =
            size(1024 + "/q1/".len() + 3 * 4096 + "/".len() + 32 + "-s4294967295.4294967295-".len());
        assert!(longest * 30 < CAPACITY.bytes, "{longest}");
    }

    /// The lock is held only for moments between two checks, so that no check ever finds a slot in use.
    #[test]
    fn a_session_in_light_use_is_never_idle() {
        let mut slots = Slots::new(at(0));
        for minute in 1..100 {
            let now = at(minute * 59);
            assert!(!slots.are_idle(IDLE, now));
            assert!(slots.take(100, now));
            slots.release(100, now);
        }
        assert!(!slots.are_idle(IDLE, at(99 * 59)));
    }
}
