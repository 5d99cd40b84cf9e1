//! [`Doors`]: which of the doors that leaves have closed can be opened again.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
};

use lock_core::EntryId;

use super::lane::Lane;

/// The creates that ended without an answer, until their entries have left.
///
/// Such a create may arrive after the leave, which therefore closes a door: a key that stays for a minute (PR08). It need not stay where
/// the only create of the entry was sent on a connection that is still there, by a caller that is gone: what is sent on this connection
/// from now on is carried out behind it, and nobody sends it again. That is not known of a create
///
/// * in a batch, which the task that drives the connection sends once more if the server does not know the script;
/// * that failed, for its caller may have asked again on another connection.
///
/// An entry asks for one thing at a time.
#[derive(Debug)]
pub(super) struct Doors {
    /// The entry of each, and the connection that it was sent on; none where that is not all there is to know.
    unanswered: Mutex<HashMap<EntryId, Option<Weak<Lane>>>>,
    /// The process that it was made in.
    pid: u32,
}

impl Doors {
    /// A request is about to be sent, which may create this entry.
    pub(super) fn asks<'a>(&'a self, creates: Option<EntryId>, lane: &'a Arc<Lane>) -> Asking<'a> {
        Asking { doors: self, creates, lane, alone: false }
    }

    /// The connection on which whatever is sent now arrives behind the last create of an entry, which has left.
    pub(super) fn behind(&self, entry: EntryId) -> Option<Arc<Lane>> {
        self.lock().remove(&entry)?.and_then(|lane| lane.upgrade())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EntryId, Option<Weak<Lane>>>> {
        // Nothing panics while it is held, and each change to it is whole.
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Doors {
    fn default() -> Self {
        Self { unanswered: Mutex::default(), pid: std::process::id() }
    }
}

/// A request on its way. Dropped before it is answered, its create is remembered, if it has one.
pub(super) struct Asking<'a> {
    doors: &'a Doors,
    creates: Option<EntryId>,
    lane: &'a Arc<Lane>,
    alone: bool,
}

impl Asking<'_> {
    /// It is sent by its caller, and by nobody without it.
    pub(super) fn goes_alone(&mut self) {
        self.alone = true;
    }

    /// It was answered, or not sent at all.
    pub(super) fn is_done(&mut self) {
        self.creates = None;
    }

    /// Its caller is told so, and may ask again.
    pub(super) fn has_failed(&mut self) {
        self.alone = false;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        // In a fork somebody who is not there may seem to hold the lock for ever; and whose entries leave is the parent.
        if let Some(entry) = self.creates.filter(|_| self.doors.pid == std::process::id()) {
            // A panic of others is told to the caller as a failure, who may ask again.
            let alone = self.alone && !thread::panicking();
            let lane = alone.then(|| Arc::downgrade(self.lane));
            // One of several may be anywhere.
            self.doors.lock().entry(entry).and_modify(|known| *known = None).or_insert(lane);
        }
    }
}
