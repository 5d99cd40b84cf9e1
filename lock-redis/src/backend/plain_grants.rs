//! [`PlainGrants`]: holders whose tokens only this process knows.

use std::collections::HashMap;

use lock_core::{EntryId, FencingToken, sync::Mutex};

/// Entries that were granted the lock by plain commands, until they leave: their value may lack the token, which only the answer had. The
/// scripts may then believe the token that they are told. They must not believe any other: the value may be of a later life of the entry.
#[derive(Debug, Default)]
pub(super) struct PlainGrants(Mutex<HashMap<EntryId, FencingToken>>);

impl PlainGrants {
    pub(super) fn insert(&self, entry: EntryId, token: FencingToken) {
        self.0.lock().insert(entry, token);
    }

    pub(super) fn of(&self, entry: EntryId) -> Option<FencingToken> {
        self.0.lock().get(&entry).copied()
    }

    pub(super) fn remove(&self, entry: EntryId) {
        self.0.lock().remove(&entry);
    }

    /// The life of an entry with this token is over.
    pub(super) fn remove_life(&self, entry: EntryId, token: FencingToken) {
        let mut grants = self.0.lock();
        if grants.get(&entry) == Some(&token) {
            grants.remove(&entry);
        }
    }
}
