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
/// be deleted immediately if the only create of the entry was sent on a connection that is still open, by a caller that was dropped: every
/// command sent on this connection from now on is executed after the create, and the create is not sent again. This does not hold for
/// a create
///
/// * in a batch: the task that drives the connection sends the batch again if the server does not know its script;
/// * that failed: its caller may have sent it again on another connection.
///
/// An entry has one request at a time.
#[derive(Debug)]
pub(super) struct UnansweredCreates {
    /// For each entry, the connection on which its create was sent. `None` if no connection is certain to be behind the create.
    connections: Mutex<HashMap<EntryId, Option<Weak<PooledCommands>>>>,
    /// The process that made this value.
    pid: u32,
}

impl UnansweredCreates {
    /// Registers a request that may create this entry and is about to be sent.
    pub(super) fn begin<'a>(
        &'a self,
        creates: Option<EntryId>,
        connection: &'a Arc<PooledCommands>,
    ) -> PendingCreate<'a> {
        PendingCreate { unanswered: self, creates, connection, sent_alone: false }
    }

    /// The connection on which a command that is sent now arrives after every create of this entry, which has left. Forgets the entry.
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

/// A request in flight. If it may create its entry and is dropped before it is answered, the drop records its connection.
pub(super) struct PendingCreate<'a> {
    unanswered: &'a UnansweredCreates,
    creates: Option<EntryId>,
    connection: &'a Arc<PooledCommands>,
    sent_alone: bool,
}

impl PendingCreate<'_> {
    /// The caller sends the request itself, so it is not sent again once the caller is dropped.
    pub(super) fn mark_sent_alone(&mut self) {
        self.sent_alone = true;
    }

    /// The request was answered, or not sent at all.
    pub(super) fn mark_answered(&mut self) {
        self.creates = None;
    }

    /// The request failed: its caller learns that, and may send it again.
    pub(super) fn mark_failed(&mut self) {
        self.sent_alone = false;
    }
}

impl Drop for PendingCreate<'_> {
    fn drop(&mut self) {
        // In a forked child, the map may stay locked forever by a thread that exists only in the parent. The parent removes its own
        // entries.
        if let Some(entry) = self.creates.filter(|_| self.unanswered.pid == std::process::id()) {
            // The caller learns of a panic as of a failure, and may send the request again.
            let alone = self.sent_alone && !thread::panicking();
            let connection = alone.then(|| Arc::downgrade(self.connection));
            // With several unanswered creates, no single connection is certain to be behind all of them.
            self.unanswered.lock().entry(entry).and_modify(|known| *known = None).or_insert(connection);
        }
    }
}
