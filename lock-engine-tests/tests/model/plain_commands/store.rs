//! [`Store`]: one name as the server has it, and what its commands and scripts do.

use super::{Config, Mutation};
use crate::types::{Id, Ticks};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// The value of the lock's key.
    pub(crate) holder: Option<Holder>,
    /// The waiters in their order, some of them perhaps dead.
    pub(crate) queue: Vec<Waiter>,
    /// The last token.
    pub(crate) counter: u8,
    /// Whether a holder that had passed the queue was ever found. For `SOMETIMES`.
    pub(crate) gave_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) id: Id,
    /// None as long as only the answer of the create has it.
    pub(crate) token: Option<u8>,
    /// Whether somebody has queued up behind this holder.
    pub(crate) marked: bool,
    pub(crate) left: Ticks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) id: Id,
    pub(crate) token: u8,
    pub(crate) left: Ticks,
}

/// The answers of the plain commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Created {
    pub(crate) queue_existed: bool,
    pub(crate) set: bool,
    pub(crate) token: u8,
}

/// The answer of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Entered {
    Granted(u8),
    Waits,
    Gone,
}

impl Store {
    /// `MULTI · EXISTS q · XADD c · SET name NX PX · EXEC`.
    pub(super) fn create(&mut self, id: Id, ttl: Ticks) -> Created {
        let queue_existed = !self.queue.is_empty();
        let (token, set) = (self.mint(), self.holder.is_none());
        if set {
            self.holder = Some(Holder { id, token: None, marked: false, left: ttl });
        }
        Created { queue_existed, set, token }
    }

    /// The script: looks again, or creates if it may.
    pub(super) fn enter(&mut self, config: &Config, id: Id, creates: bool) -> Entered {
        self.settle(config);
        if let Some(mut holder) = self.holder.filter(|holder| holder.id == id) {
            let known =
                holder.token.filter(|_| !config.leaves_out(Mutation::RepeatsWithNewerToken) || !creates);
            let token = known.unwrap_or_else(|| self.mint());
            (holder.token, holder.left) = (Some(token), config.ttl);
            self.holder = Some(holder);
            return Entered::Granted(token);
        }
        if let Some(waiter) = self.queue.iter_mut().find(|waiter| waiter.id == id) {
            waiter.left = config.ttl;
            return Entered::Waits;
        }
        if !creates {
            return Entered::Gone;
        }
        let Some(mut holder) = self.holder else {
            let token = self.mint();
            self.holder = Some(Holder { id, token: Some(token), marked: false, left: config.ttl });
            return Entered::Granted(token);
        };
        if self.queue.is_empty() && !config.leaves_out(Mutation::LeavesUnmarked) {
            // The holder's own token, if only it has it, is smaller than this one, which is smaller than that of the waiter.
            if !config.leaves_out(Mutation::RepeatsWithNewerToken) {
                let token = holder.token.unwrap_or_else(|| self.mint());
                holder.token = Some(token);
            }
            holder.marked = true;
            self.holder = Some(holder);
        }
        let token = self.mint();
        self.queue.push(Waiter { id, token, left: config.ttl });
        Entered::Waits
    }

    /// The renewal of a holder with this token. Whether it still holds the lock.
    pub(super) fn renew(&mut self, config: &Config, id: Id, token: u8) -> bool {
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.id == id) else { return false };
        let is_as_written = !holder.marked && holder.token.is_none_or(|written| written == token);
        if !is_as_written && config.leaves_out(Mutation::ComparesWholeValue) {
            return false;
        }
        if is_as_written {
            holder.token = Some(token);
        }
        holder.left = config.ttl;
        true
    }

    /// The release of a lock that was granted: deletes an unmarked value of one's own without a look at the queue, or else is [`leave`].
    ///
    /// [`leave`]: Self::leave
    pub(super) fn release(&mut self, config: &Config, id: Id) {
        if self.holder.is_some_and(|holder| holder.id == id && !holder.marked) {
            self.holder = None;
        } else {
            self.leave(config, id);
        }
    }

    /// The script that leaves, holding or waiting, and hands over.
    pub(super) fn leave(&mut self, config: &Config, id: Id) {
        self.holder = self.holder.filter(|holder| holder.id != id);
        self.queue.retain(|waiter| waiter.id != id);
        self.settle(config);
    }

    pub(super) fn tick(&mut self) {
        for waiter in &mut self.queue {
            waiter.left = waiter.left.saturating_sub(1);
        }
        if let Some(holder) = &mut self.holder {
            holder.left -= 1;
            self.holder = self.holder.filter(|holder| holder.left > 0);
        }
    }

    /// The whole queue ends after the last of its leases.
    pub(super) fn expire_queue(&mut self) {
        self.queue.clear();
    }

    pub(crate) fn has(&self, id: Id) -> bool {
        self.holder.is_some_and(|holder| holder.id == id) || self.queue.iter().any(|waiter| waiter.id == id)
    }

    /// Drops the dead, takes the lock from who has passed the queue, and gives it to the first waiter.
    fn settle(&mut self, config: &Config) {
        self.queue.retain(|waiter| waiter.left > 0);
        if self.queue.is_empty() {
            return;
        }
        // The first who queues up behind a holder marks it. This one has come later than the queue.
        let passed = |holder: &Holder| !holder.marked && holder.token.is_none();
        if !config.leaves_out(Mutation::KeepsWhoPassed) && self.holder.as_ref().is_some_and(passed) {
            self.holder = None;
            self.gave_back = true;
        }
        if self.holder.is_none() {
            let first = self.queue.remove(0);
            let marked = !self.queue.is_empty();
            self.holder = Some(Holder { id: first.id, token: Some(first.token), marked, left: first.left });
        }
    }

    fn mint(&mut self) -> u8 {
        self.counter += 1;
        self.counter
    }
}
