//! [`Notifier`]: delivers messages to the waiters of this process, and to listeners for alarms.

use lock_core::{Alarms, Hint};

use super::{message::Message, waiters::Waiters};

/// Delivers messages within this process. Clones share their listeners.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notifier {
    pub(crate) waiters: Waiters,
    board: lock_core::Notifier,
}

impl Notifier {
    pub(crate) fn alarms(&self) -> Alarms {
        self.board.alarms()
    }

    pub(crate) fn tell(&self, message: Message) {
        match message {
            Message::Admitted(entry, token) => self.waiters.tell(entry, Hint::Admitted { token }),
            Message::Evicted(entry) => {
                self.board.alarm(entry);
                self.waiters.tell(entry, Hint::Changed);
            }
            Message::Next(_) => {}
        }
        // A process that got a message may have the next waiter of a queue by now.
        self.waiters.waker.wake();
    }
}
