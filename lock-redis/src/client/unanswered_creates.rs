//! [`UnansweredCreates`]: which tombstones can be deleted again.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    thread,
};

use lock_core::{
    EntryId,
    sync::{Mutex, MutexGuard},
};

use super::connector::PooledCommands;

/// The creates that ended without an answer, until their entries have left.
///
/// Such a create may arrive after the leave, which therefore writes a tombstone: a key that stays for a minute (PR08). The tombstone can
/// be deleted at once where the only create of the entry was sent on a connection that is still there, by a caller that is gone: the server
/// carries out what is sent on this connection from now on behind the create, and nobody sends the create again. That is not known of a
/// create
///
/// * in a batch, which the task that drives the connection sends once more if the server does not know the script;
/// * that failed, for its caller may have sent it again on another connection.
///
/// An entry has one request at a time.
#[derive(Debug)]
pub(super) struct UnansweredCreates {
    /// By entry, the connection that its create was sent on. `None` if nothing can be known to arrive behind it.
    connections: Mutex<HashMap<EntryId, Option<Weak<PooledCommands>>>>,
    /// The process that it was made in.
    pid: u32,
}

impl UnansweredCreates {
    /// A request is about to be sent, which may create this entry.
    pub(super) fn begin<'a>(
        &'a self,
        creates: Option<EntryId>,
        connection: &'a Arc<PooledCommands>,
    ) -> PendingCreate<'a> {
        PendingCreate { unanswered: self, creates, connection, sent_alone: false }
    }

    /// The connection on which commands that are sent now arrive behind every create of an entry that has left. Forgets the entry.
    pub(super) fn take_connection(&self, entry: EntryId) -> Option<Arc<PooledCommands>> {
        self.lock().remove(&entry)?.and_then(|connection| connection.upgrade())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntryId, Option<Weak<PooledCommands>>>> {
        self.connections.lock()
    }
}

impl Default for UnansweredCreates {
    fn default() -> Self {
        Self { connections: Mutex::default(), pid: std::process::id() }
    }
}

/// A request in flight. If it is dropped before it is answered, and may create its entry, that is remembered.
pub(super) struct PendingCreate<'a> {
    unanswered: &'a UnansweredCreates,
    creates: Option<EntryId>,
    connection: &'a Arc<PooledCommands>,
    sent_alone: bool,
}

impl PendingCreate<'_> {
    /// Its caller sends it, and nobody else does once the caller is gone.
    pub(super) fn mark_sent_alone(&mut self) {
        self.sent_alone = true;
    }

    /// It was answered, or not sent at all.
    pub(super) fn mark_answered(&mut self) {
        self.creates = None;
    }

    /// Its caller is told so, and may send it again.
    pub(super) fn mark_failed(&mut self) {
        self.sent_alone = false;
    }
}

impl Drop for PendingCreate<'_> {
    fn drop(&mut self) {
        // In a forked child, the map may stay locked for ever by a thread that exists only in the parent. And the parent leaves for its
        // entries.
        if let Some(entry) = self.creates.filter(|_| self.unanswered.pid == std::process::id()) {
            // The caller is told of a panic as of a failure, and may send it again.
            let alone = self.sent_alone && !thread::panicking();
            let connection = alone.then(|| Arc::downgrade(self.connection));
            // With several unanswered creates, no single connection is behind all of them.
            self.unanswered.lock().entry(entry).and_modify(|known| *known = None).or_insert(connection);
        }
    }
}
