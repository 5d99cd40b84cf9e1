//! [`SessionPool`]: the shared sessions of a backend.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    kind::{PooledMember, SessionKind},
    registry::Registry,
    slots::Capacity,
};
use crate::{
    EntryId, Keeper,
    sync::{Mutex, MutexGuard},
};

/// The shared sessions of a backend, by *class*, and the entries in them. A class is the ttl for which its sessions are opened.
pub struct SessionPool<K: SessionKind> {
    keeper: Keeper,
    capacity: Capacity,
    registry: Mutex<Registry<K>>,
}

impl<K: SessionKind> SessionPool<K> {
    /// A pool without sessions. Each will have room for this many members.
    #[must_use]
    pub fn new(keeper: Keeper, capacity: Capacity) -> Self {
        Self { keeper, capacity, registry: Mutex::default() }
    }

    /// Makes an entry a member of a session that is open. `None` if none has room for its `size`, or if the entry
    /// [may not join](super::join). The pool is locked while `make` runs.
    pub fn try_join(
        &self,
        entry: EntryId,
        class: Duration,
        size: usize,
        make: impl Fn(&Arc<K::Session>) -> K::Member,
    ) -> Option<Arc<K::Member>> {
        let now = self.keeper.now();
        let mut registry = self.lock();
        if registry.may_join(entry, now) {
            registry.join(class, self.capacity, size, make, now)
        } else {
            None
        }
    }

    /// Adds a member that has a session of its own, which is in no class. `None` if its entry [may not join](super::join): then the owner
    /// ends the session, which nothing needs.
    pub fn add_private(&self, member: K::Member) -> Option<Arc<K::Member>> {
        let (member, now) = (Arc::new(member), self.keeper.now());
        let mut registry = self.lock();
        if !registry.may_join(member.id(), now) {
            return None;
        }
        registry.add_member(&member, now);
        Some(member)
    }

    /// The member for an entry.
    pub fn find(&self, entry: EntryId) -> Option<Arc<K::Member>> {
        self.lock().members.get(&entry).cloned()
    }

    /// The members of a session.
    pub fn members_of(&self, session: &Arc<K::Session>) -> Vec<Arc<K::Member>> {
        self.lock().members_of(session)
    }

    /// Whether an entry is a member of this session.
    pub fn is_member_of(&self, entry: EntryId, session: &Arc<K::Session>) -> bool {
        self.lock().members.get(&entry).is_some_and(|member| Arc::ptr_eq(member.session(), session))
    }

    /// Forgets a member that is not in the store and will not be. False if it was forgotten before. Another member for the same entry
    /// stays.
    pub fn forget(&self, member: &Arc<K::Member>) -> bool {
        let now = self.keeper.now();
        self.lock().remove_member(member, now)
    }

    /// Keeps an entry out for `ttl`, and for a minute at the least: it leaves while a create of it is in doubt.
    pub fn add_tombstone(&self, entry: EntryId, ttl: Duration) {
        let now = self.keeper.now();
        self.lock().tombstones.insert(entry, ttl, now);
    }

    /// Whether an entry is kept out.
    pub fn has_tombstone(&self, entry: EntryId) -> bool {
        let now = self.keeper.now();
        self.lock().tombstones.contains(entry, now)
    }

    /// A session of any class that is open.
    pub fn any_session(&self) -> Option<Arc<K::Session>> {
        let now = self.keeper.now();
        self.lock().open_session(None, now)
    }

    /// Removes a session that is over from its class. False if that was done before.
    pub fn remove(&self, session: &Arc<K::Session>, class: Duration) -> bool {
        self.lock().remove_session(class, session)
    }

    /// Closes a session if no slot was in use for so long: no entry gets a slot in it any more. If it is true, the owner ends the
    /// session.
    pub fn close_if_idle(&self, session: &Arc<K::Session>, idle: Duration) -> bool {
        let now = self.keeper.now();
        self.lock().close_if_idle(session, idle, now)
    }

    /// Closes all sessions in which no slot is in use, and gives each with its class. The owner ends them.
    pub fn close_idle(&self) -> Vec<(Arc<K::Session>, Duration)> {
        let now = self.keeper.now();
        let mut registry = self.lock();
        let mut all = registry.sessions();
        all.retain(|(session, _)| registry.close_if_idle(session, Duration::ZERO, now));
        all
    }

    /// Waits until all sessions that are being opened now are open, or have failed to.
    ///
    /// # Cancel safety
    /// It does nothing but wait.
    pub async fn until_opened(&self) {
        let openings: Vec<_> =
            self.lock().classes.values().filter_map(|known| known.opening.clone()).collect();
        for mut opening in openings {
            // An error: the keeper has ended, and opens none.
            let _ = opening.wait_for(Option::is_some).await;
        }
    }

    /// All sessions of all classes, for an owner that is dropped and ends them.
    pub fn take_sessions(&mut self) -> Vec<Arc<K::Session>> {
        let registry = std::mem::take(self.registry.get_mut());
        registry.sessions().into_iter().map(|(session, _)| session).collect()
    }

    /// A session was opened for a class, or could not be.
    pub(super) fn end_opening(&self, class: Duration, opened: Option<&Arc<K::Session>>) {
        let now = self.keeper.now();
        let mut registry = self.lock();
        registry.classes.entry(class).or_default().opening = None;
        if let Some(session) = opened {
            registry.add_session(class, session, now);
        }
    }

    /// The members of a session whose time is over, if nobody is removing any.
    pub(super) fn begin_sweep(&self, session: &Arc<K::Session>) -> Vec<Arc<K::Member>> {
        let now = self.keeper.now();
        self.lock().begin_sweep(session, now)
    }

    pub(super) fn end_sweep(&self, session: &Arc<K::Session>) {
        self.lock().end_sweep(session);
    }

    pub(super) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    pub(super) fn capacity(&self) -> Capacity {
        self.capacity
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Registry<K>> {
        self.registry.lock()
    }
}

impl<K: SessionKind> fmt::Debug for SessionPool<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registry = self.lock();
        f.debug_struct("SessionPool")
            .field("sessions", &registry.sessions().len())
            .field("members", &registry.members.len())
            .finish_non_exhaustive()
    }
}
