//! [`Sessions`]: the leases that keep our entries alive, and the entries under each.
//!
//! There is one lease for each ttl, shared by the entries of a [pool](lock_core::session_pool) and kept alive on the keeper. An
//! entry that must not be renewed has a lease of its own, which only its own verbs keep alive. Entries that a shared lease keeps
//! alive beyond their own time are removed: see [`task`].

mod leave;
mod member;
mod numbers;
mod observer;
mod open;
mod owner;
mod pool;
mod reap;
mod revoke;
#[expect(clippy::module_inception, reason = "the one main type of the file")]
mod session;
mod task;
mod tombstones;

use std::{fmt, sync::Arc};

use lock_core::{Entry, EntryId, session_pool};

use self::pool::{Pool, class};
pub(crate) use self::{leave::delete, member::Member, observer::SessionObserver, session::Session};
use crate::{client::Client, error::Failure, keys::Keys};

/// All sessions of one backend.
pub(crate) struct Sessions(Arc<Pool>);

impl Sessions {
    pub(crate) fn new(client: Client, prefix: String, observer: Arc<dyn SessionObserver>) -> Self {
        Self(Pool::new(client, prefix, observer))
    }

    /// Makes an entry a member, if that needs no request because a shared lease has a free slot.
    pub(crate) fn reserve(&self, entry: &Entry) -> Option<Arc<Member>> {
        if !entry.renew {
            return None;
        }
        self.0.sessions.try_join(entry.id, class(entry.ttl), 0, |session| self.new_member(entry, session))
    }

    /// The member of an entry, which is made if there is none. From here on the entry has a dead-man's timer. `None` if the entry's session
    /// has ended, because with another session it would be another entry (PR26), or if the entry has left.
    pub(crate) async fn join(&self, entry: &Entry) -> Result<Option<Arc<Member>>, Failure> {
        if let Some(member) = self.find(entry.id) {
            return Ok(member.is_alive(self.0.keeper.now()).then_some(member));
        }
        if entry.renew {
            let make = |session: &Arc<Session>| self.new_member(entry, session);
            return session_pool::join(&self.0, entry.id, class(entry.ttl), 0, make).await;
        }
        let session = open::open_private(&self.0, entry.ttl).await?;
        let member = self.0.sessions.add_private(self.new_member(entry, &session));
        if member.is_none() {
            // It has left meanwhile: no other leave follows.
            self.0.end_private(&session);
        }
        Ok(member)
    }

    fn new_member(&self, entry: &Entry, session: &Arc<Session>) -> Member {
        Member::new(entry, Keys::new(&self.0.prefix, &entry.name), session, self.0.keeper.now())
    }

    /// The member of an entry.
    pub(crate) fn find(&self, entry: EntryId) -> Option<Arc<Member>> {
        self.0.sessions.find(entry)
    }

    /// Records that a member is not in the store. If a create may still be in flight, the leave that follows handles it.
    pub(crate) fn mark_gone(&self, member: &Arc<Member>) {
        if member.certain_revision().is_some() {
            self.0.forget(member);
        }
    }

    /// Makes sure that a member that is not in the store is not created later: no leave follows for an entry that only tried, or was refused.
    ///
    /// # Errors
    /// If it is unknown whether this was done.
    pub(crate) async fn keep_out(&self, member: &Arc<Member>) -> Result<(), Failure> {
        if member.certain_revision().is_some() {
            self.0.forget(member);
        } else {
            self.0.remove_entry(member, true).await?;
        }
        Ok(())
    }

    /// Records that an entry was told that it is gone, after which no leave may follow. An entry with a lease of its own has no task that
    /// cleans up behind it, so its member is forgotten here, and its lease is revoked with whatever is still under it.
    pub(crate) fn mark_told_gone(&self, entry: EntryId) {
        if let Some(member) = self.find(entry).filter(|member| member.session.is_private()) {
            self.0.forget(&member);
        }
    }

    /// Removes an entry from the store. Returns whether it was there. An entry without a member was never put there by us, or is known to
    /// be gone.
    ///
    /// # Errors
    /// If it is unknown whether this was done.
    pub(crate) async fn leave(&self, entry: &Entry, in_doubt: bool) -> Result<bool, Failure> {
        if in_doubt {
            self.0.sessions.add_tombstone(entry.id, entry.ttl);
        }
        match self.find(entry.id) {
            Some(member) => self.0.remove_entry(&member, in_doubt).await,
            None => Ok(false),
        }
    }

    /// Ends the sessions in which no slot is used, and waits until their leases, and all other leases that have ended, are gone.
    pub(crate) async fn give_back(&self) {
        self.0.sessions.until_opened().await;
        task::end_idle(&self.0);
        let mut revoking = self.0.revoking.subscribe();
        // The sender lives as long as `self`.
        let _ = revoking.wait_for(|leases| *leases == 0).await;
    }

    /// Whether an entry has left while a create of it was in doubt.
    pub(crate) fn has_tombstone(&self, entry: EntryId) -> bool {
        self.0.sessions.has_tombstone(entry)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.sessions.fmt(f)
    }
}
