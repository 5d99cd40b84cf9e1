//! [`Slots`]: how many entries share a session, and since when there is none.

use std::time::Duration;

use lock_core::BootTime;

/// The slots of a session.
#[derive(Debug)]
pub(super) struct Slots {
    taken: usize,
    /// Keys and tombstones that no entry can have any more, because a request that deletes or sets them may still arrive. Each takes a
    /// slot: so a session that has lost many ends when its members have left.
    lost: usize,
    /// When one was last taken or given back.
    used: BootTime,
}

impl Slots {
    pub(super) fn new(opened: BootTime) -> Self {
        Self { taken: 0, lost: 0, used: opened }
    }

    /// Takes one, if there is one.
    pub(super) fn take(&mut self, capacity: usize, now: BootTime) -> bool {
        let free = self.taken + self.lost < capacity;
        if free {
            self.taken += 1;
            self.used = now;
        }
        free
    }

    /// Gives one back. An entry that has a session of its own has taken none.
    pub(super) fn release(&mut self, now: BootTime) {
        self.taken = self.taken.saturating_sub(1);
        self.used = now;
    }

    /// A key and a tombstone are lost: no entry can have them any more.
    pub(super) fn lose(&mut self) {
        self.lost += 1;
    }

    /// Whether nobody has had one for so long, not even for a moment.
    pub(super) fn are_idle(&self, idle: Duration, now: BootTime) -> bool {
        self.taken == 0 && now.since(self.used) >= idle
    }
}
