//! [`Outbox`]: the messages of committed transactions, until the store is free again.

use std::sync::Arc;

use crate::{
    notify::{mailbox::Mailbox, message::Message, notifier::Notifier},
    process_files::ProcessFiles,
    process_folder::ProcessFolder,
    process_lock,
    transaction::Effects,
};

/// Messages to send, and dead processes whose files have to be removed. Delivering a message wakes tasks, which run foreign code.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    here: Vec<Message>,
    /// Messages to other processes, each with the mailbox of its time, because the file may be replaced before they are sent.
    away: Vec<(Arc<Mailbox>, i64, Message)>,
    reaped: Vec<(Arc<ProcessFolder>, i64)>,
}

impl Outbox {
    /// Adds the effects of a transaction of the process with these files.
    pub(crate) fn add(&mut self, effects: Effects, process_files: &ProcessFiles) {
        for (member, message) in effects.messages {
            if member == process_files.id() {
                self.here.push(message);
            } else {
                self.away.push((Arc::clone(&process_files.mailbox), member, message));
            }
        }
        self.reaped
            .extend(effects.reaped.into_iter().map(|member| (Arc::clone(process_files.folder()), member)));
    }

    pub(crate) fn send(self, notifier: &Notifier) {
        for message in self.here {
            notifier.tell(message);
        }
        for (mailbox, member, message) in self.away {
            mailbox.send(member, message);
        }
        for (folder, member) in self.reaped {
            process_lock::remove_files(&folder, member);
        }
    }
}
