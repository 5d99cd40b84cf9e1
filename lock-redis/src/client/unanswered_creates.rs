//! [`UnansweredCreates`]: which creates may still arrive.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    thread,
};

use lock_core::{
    EntryId,
    sync::{Mutex, MutexGuard},
};

use super::{connector::PooledCommands, identity::Identity};

/// The creates that ended without an answer, until their entries have left.
///
/// Such a create may arrive after the leave. What is done about that depends on how it was sent:
///
/// * *As plain commands:* it creates whatever it finds, so the leave waits until it can no longer arrive. Commands on its connection are
///   executed after it; if that was given up, the server is told to end it.
/// * *As a script:* the leave writes a tombstone, a key that stays for a minute and that the script finds (PR08). It can be deleted
///   immediately if the only create of the entry was sent on a connection that is still open, by a caller that was dropped: every command
///   sent on this connection from now on is executed after the create, and the create is not sent again. This does not hold for a create
///   in a batch, because the task that drives the connection sends the batch again if the server does not know its script; and not for one
///   that failed, because its caller may have sent it again on another connection.
///
/// An entry has one request at a time.
#[derive(Debug)]
pub(super) struct UnansweredCreates {
    entries: Mutex<HashMap<EntryId, Unanswered>>,
    /// The process that made this value.
    pid: u32,
}

/// The unanswered creates of one entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Unanswered {
    pub(super) plain: Vec<SentPlainly>,
    script: Option<SentAsScript>,
}

/// A create of plain commands.
#[derive(Clone, Debug)]
pub(super) struct SentPlainly {
    pub(super) connection: Weak<PooledCommands>,
    pub(super) identity: Arc<Identity>,
}

#[derive(Clone, Debug)]
enum SentAsScript {
    /// On this connection, and not sent again.
    On(Weak<PooledCommands>),
    /// No connection is certain to be behind it.
    Somewhere,
}

impl Unanswered {
    /// Whether a script may still create the entry, or nothing is known of its creates.
    pub(super) fn needs_tombstone(&self) -> bool {
        self.script.is_some() || self.plain.is_empty()
    }
}

impl UnansweredCreates {
    /// Registers a script that may create this entry and is about to be sent.
    pub(super) fn begin_script<'a>(
        &'a self,
        creates: Option<EntryId>,
        connection: &'a Arc<PooledCommands>,
    ) -> PendingCreate<'a> {
        PendingCreate { unanswered: self, creates, connection, form: Form::Script { sent_alone: false } }
    }

    /// Registers plain commands that may create this entry and are about to be sent.
    pub(super) fn begin_plain<'a>(
        &'a self,
        entry: EntryId,
        connection: &'a Arc<PooledCommands>,
        identity: &'a Arc<Identity>,
    ) -> PendingCreate<'a> {
        PendingCreate { unanswered: self, creates: Some(entry), connection, form: Form::Plain(identity) }
    }

    /// The creates of an entry that is about to leave.
    pub(super) fn of(&self, entry: EntryId) -> Option<Unanswered> {
        self.lock().get(&entry).cloned()
    }

    /// The entry has left. Gives the connection on which a command that is sent now arrives after every script that creates it.
    pub(super) fn forget(&self, entry: EntryId) -> Option<Arc<PooledCommands>> {
        match self.lock().remove(&entry)?.script? {
            SentAsScript::On(connection) => connection.upgrade(),
            SentAsScript::Somewhere => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntryId, Unanswered>> {
        self.entries.lock()
    }
}

impl Default for UnansweredCreates {
    fn default() -> Self {
        Self { entries: Mutex::default(), pid: std::process::id() }
    }
}

/// A request in flight. If it may create its entry and is dropped before it is answered, the drop records how it was sent.
pub(super) struct PendingCreate<'a> {
    unanswered: &'a UnansweredCreates,
    creates: Option<EntryId>,
    connection: &'a Arc<PooledCommands>,
    form: Form<'a>,
}

enum Form<'a> {
    Plain(&'a Arc<Identity>),
    Script { sent_alone: bool },
}

impl PendingCreate<'_> {
    /// The caller sends the script itself, so it is not sent again once the caller is dropped.
    pub(super) fn mark_sent_alone(&mut self) {
        if let Form::Script { sent_alone } = &mut self.form {
            *sent_alone = true;
        }
    }

    /// The request was answered, or not sent at all.
    pub(super) fn mark_answered(&mut self) {
        self.creates = None;
    }

    /// The request failed: its caller learns that, and may send it again.
    pub(super) fn mark_failed(&mut self) {
        if let Form::Script { sent_alone } = &mut self.form {
            *sent_alone = false;
        }
    }
}

impl Drop for PendingCreate<'_> {
    fn drop(&mut self) {
        // In a forked child, the map may stay locked forever by a thread that exists only in the parent. The parent removes its own
        // entries.
        let Some(entry) = self.creates.filter(|_| self.unanswered.pid == std::process::id()) else { return };
        let connection = Arc::downgrade(self.connection);
        let mut entries = self.unanswered.lock();
        let unanswered = entries.entry(entry).or_default();
        match &self.form {
            Form::Plain(identity) => {
                unanswered.plain.push(SentPlainly { connection, identity: Arc::clone(identity) });
            }
            // The caller learns of a panic as of a failure, and may send the request again. With several unanswered creates, no single
            // connection is certain to be behind all of them.
            Form::Script { sent_alone } => {
                let only = *sent_alone && !thread::panicking() && unanswered.script.is_none();
                let sent = if only { SentAsScript::On(connection) } else { SentAsScript::Somewhere };
                unanswered.script = Some(sent);
            }
        }
    }
}
