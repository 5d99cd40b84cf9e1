//! [`Sessions`]: the leases that keep our entries alive, and the entries under each.
//!
//! One lease for each ttl, shared by the entries of a [pool](lock_core::session_pool) and kept alive on the keeper. An entry
//! whose lease is not to be renewed has a lease of its own, which nothing keeps alive but its own verbs. Whatever a shared
//! lease keeps alive beyond its time is taken away here: see [`task`].

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

    /// The member that an entry becomes, where nothing has to be asked for that: there is a slot under a shared lease.
    pub(crate) fn reserve(&self, entry: &Entry) -> Option<Arc<Member>> {
        if !entry.renew {
            return None;
        }
        self.0.sessions.try_join(entry.id, class(entry.ttl), 0, |session| self.new_member(entry, session))
    }

    /// The member that an entry is, or becomes: from here on it has a dead-man's timer. `None` if its session has died, with
    /// another one it would be another entry (PR26), or if it left for good.
    pub(crate) async fn join(&self, entry: &Entry) -> Result<Option<Arc<Member>>, Failure> {
        if let Some(member) = self.find(entry.id) {
            return Ok(member.is_alive(self.0.keeper.now()).then_some(member));
        }
        if entry.renew {
            let make = |session: &Arc<Session>| self.new_member(entry, session);
            return session_pool::join(&self.0, entry.id, class(entry.ttl), 0, make).await;
        }
        let session = open::open_private(&self.0, entry.ttl).await?;
        Ok(Some(self.0.sessions.add_private(self.new_member(entry, &session))))
    }

    fn new_member(&self, entry: &Entry, session: &Arc<Session>) -> Member {
        Member::new(entry, Keys::new(&self.0.prefix, &entry.name), session, self.0.keeper.now())
    }

    /// The member that an entry is.
    pub(crate) fn find(&self, entry: EntryId) -> Option<Arc<Member>> {
        self.0.sessions.find(entry)
    }

    /// Takes note that a member is not in the store. If a create may still be in flight, the leave that follows handles it.
    pub(crate) fn mark_gone(&self, member: &Arc<Member>) {
        if member.certain_revision().is_some() {
            self.0.forget(member);
        }
    }

    /// Makes sure that a member that is not in the store does not come later: no leave follows for one that only tried, or was refused.
    ///
    /// # Errors
    /// If it is not known to be done.
    pub(crate) async fn keep_out(&self, member: &Arc<Member>) -> Result<(), Failure> {
        if member.certain_revision().is_some() {
            self.0.forget(member);
        } else {
            self.0.remove_entry(member, true).await?;
        }
        Ok(())
    }

    /// An entry was told that it is gone, and may never be heard of again. An entry with a lease of its own has no task that looks
    /// after it: what is left of it goes with the lease.
    pub(crate) fn mark_told_gone(&self, entry: EntryId) {
        if let Some(member) = self.find(entry).filter(|member| member.session.is_private()) {
            self.0.forget(&member);
        }
    }

    /// Takes an entry out of the store. True if it was there. One that is no member never was there by us, or is known to
    /// have gone.
    ///
    /// # Errors
    /// If it is not known to be done.
    pub(crate) async fn leave(&self, entry: &Entry, in_doubt: bool) -> Result<bool, Failure> {
        if in_doubt {
            self.0.sessions.add_tombstone(entry.id, entry.ttl);
        }
        match self.find(entry.id) {
            Some(member) => self.0.remove_entry(&member, in_doubt).await,
            None => Ok(false),
        }
    }

    /// Ends the sessions that nobody has a slot in, and waits until nothing is left of them, nor of any other lease that is over.
    pub(crate) async fn give_back(&self) {
        self.0.sessions.until_opened().await;
        task::end_idle(&self.0);
        let mut revoking = self.0.revoking.subscribe();
        // The sender lives as long as we do.
        let _ = revoking.wait_for(|leases| *leases == 0).await;
    }

    /// Whether an entry left for good while a create of it was in doubt.
    pub(crate) fn has_tombstone(&self, entry: EntryId) -> bool {
        self.0.sessions.has_tombstone(entry)
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.sessions.fmt(f)
    }
}
