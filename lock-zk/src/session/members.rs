//! [`Members`]: the members of all sessions, by entry and by session.

use std::{collections::HashMap, ptr, sync::Arc};

use lock_core::EntryId;

use super::{member::Member, session::Session};

#[derive(Default)]
pub(super) struct Members {
    by_entry: HashMap<EntryId, Arc<Member>>,
    /// By the id of the session.
    by_session: HashMap<i64, HashMap<EntryId, Arc<Member>>>,
}

impl Members {
    pub(super) fn get(&self, entry: EntryId) -> Option<Arc<Member>> {
        self.by_entry.get(&entry).cloned()
    }

    /// Adds a member. There must be none for its entry.
    pub(super) fn insert(&mut self, member: &Arc<Member>) {
        let entry = member.entry.id;
        self.by_entry.insert(entry, Arc::clone(member));
        self.by_session.entry(member.session.id).or_default().insert(entry, Arc::clone(member));
    }

    /// Removes this member, but not another life of its entry. True if it was there.
    pub(super) fn remove(&mut self, member: &Arc<Member>) -> bool {
        let (entry, session) = (member.entry.id, member.session.id);
        if self.by_entry.get(&entry).is_none_or(|known| !Arc::ptr_eq(known, member)) {
            return false;
        }
        self.by_entry.remove(&entry);
        if let Some(members) = self.by_session.get_mut(&session) {
            members.remove(&entry);
            if members.is_empty() {
                self.by_session.remove(&session);
            }
        }
        true
    }

    /// The members of a session.
    pub(super) fn of(&self, session: &Session) -> Vec<Arc<Member>> {
        let members = self.by_session.get(&session.id).into_iter().flat_map(HashMap::values);
        // A new ensemble may assign the same id again.
        members.filter(|member| ptr::eq(Arc::as_ptr(&member.session), session)).cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.by_entry.len()
    }
}
