//! [`Notifier`]: tells those in this process whom a message is about.

use lock_core::{Alarms, Hint, Switchboard};

use super::{message::Message, waiters::Waiters};

/// Whoever in this process is told something: waiters, and those who listen for alarms.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notifier {
    pub(crate) waiters: Waiters,
    board: Switchboard,
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
        // Who holds something by now, or waits for something else, may be the next in another place.
        self.waiters.waker.wake();
    }
}
