//! [`Sessions`]: the leases that keep our entries alive, and who stands under which.
//!
//! One lease for each ttl, shared by at most [`MAX_SLOTS`] entries and kept alive on the keeper. An entry whose lease is not
//! to be renewed has a lease of its own, which nothing keeps alive but its own verbs. Whatever a shared lease keeps alive
//! beyond its time is taken away here: see [`task`].

mod leave;
mod member;
mod numbers;
mod open;
#[expect(clippy::module_inception, reason = "the one main type of the file")]
mod session;
mod task;
mod tombstones;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use lock_core::{BackendErrorKind as Kind, BootTime, Entry, EntryId, Keeper};
use tokio::sync::watch;

pub(crate) use self::{leave::delete, member::Member, session::Session};
use crate::{client::Client, error::Failure, keys::Keys, notify::WatchHub};

/// So many entries share a lease at the most: all writes of a cluster wait while a lease with its keys is revoked, and
/// some versions are slower for ever after 10 000 (E6, E13).
const MAX_SLOTS: usize = 1_000;

/// How long a tombstone in this process keeps out an entry that left while a create of it was in doubt.
const TOMBSTONE_TTL: Duration = Duration::from_secs(60);

/// All sessions of one backend.
pub(crate) struct Sessions(Arc<Pool>);

/// What the keeper's tasks and their owner share.
///
/// ### To ensure correctness
/// An entry becomes a member, and a session that is over leaves the registry, under the registry's lock: so whoever ends a session
/// finds all its members. Locks are taken in one order: the registry, a session, a member. None is held over an `await`.
pub(crate) struct Pool {
    /// For tasks that end with it.
    this: Weak<Self>,
    client: Client,
    keeper: Keeper,
    prefix: String,
    hub: Arc<WatchHub>,
    registry: Mutex<Registry>,
    /// How many leases are being revoked.
    revoking: watch::Sender<usize>,
}

#[derive(Default)]
struct Registry {
    /// By the ttl in whole seconds.
    classes: HashMap<u64, SessionClass>,
    members: HashMap<EntryId, Arc<Member>>,
    /// Entries that left while a create was in doubt, and until when they may not come back (PR08).
    tombstones: BTreeMap<EntryId, BootTime>,
}

/// A session that is being opened: for all who wait for it.
type OpenTask = watch::Receiver<Option<Result<Arc<Session>, Failure>>>;

#[derive(Default)]
struct SessionClass {
    sessions: Vec<Arc<Session>>,
    opening: Option<OpenTask>,
}

impl Registry {
    /// Makes an entry a member where there is a slot under a shared lease.
    fn reserve(&mut self, entry: &Entry, prefix: &str, now: BootTime) -> Option<Arc<Member>> {
        let class = self.classes.get(&seconds(entry.ttl))?;
        let session = class.sessions.iter().find(|session| session.reserve(MAX_SLOTS, now))?;
        let session = Arc::clone(session);
        Some(self.add_member(entry, prefix, &session, now))
    }

    /// Makes an entry a member of a session that has a slot for it.
    fn add_member(
        &mut self,
        entry: &Entry,
        prefix: &str,
        session: &Arc<Session>,
        now: BootTime,
    ) -> Arc<Member> {
        let member = session.add_member(entry, Keys::new(prefix, &entry.name), now);
        self.members.insert(entry.id, Arc::clone(&member));
        member
    }
}

/// Whole seconds, rounded up: what leases are granted for.
fn seconds(ttl: Duration) -> u64 {
    ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)
}

impl Sessions {
    pub(crate) fn new(client: Client, prefix: String, hub: Arc<WatchHub>) -> Self {
        let keeper = client.keeper().clone();
        Self(Arc::new_cyclic(|this| Pool {
            this: Weak::clone(this),
            client,
            keeper,
            prefix,
            hub,
            registry: Mutex::default(),
            revoking: watch::Sender::new(0),
        }))
    }

    /// The member that an entry becomes, where nothing has to be asked for that: there is a slot under a shared lease.
    pub(crate) fn reserve(&self, entry: &Entry) -> Option<Arc<Member>> {
        let mut registry = self.0.lock();
        if !entry.renew || registry.members.contains_key(&entry.id) {
            return None;
        }
        registry.reserve(entry, &self.0.prefix, self.0.keeper.now())
    }

    /// The member that an entry is, or becomes: from here on it has a dead-man's timer. `None` if its session has died:
    /// with another one it would be another entry (PR26).
    pub(crate) async fn join(&self, entry: &Entry) -> Result<Option<Arc<Member>>, Failure> {
        if let Some(member) = self.find(entry.id) {
            return Ok(member.is_alive(self.0.keeper.now()).then_some(member));
        }
        if entry.renew {
            return self.0.reserve(entry).await.map(Some);
        }
        let session = open::open_private(&self.0, entry.ttl).await?;
        let now = self.0.keeper.now();
        Ok(Some(self.0.lock().add_member(entry, &self.0.prefix, &session, now)))
    }

    /// The member that an entry is.
    pub(crate) fn find(&self, entry: EntryId) -> Option<Arc<Member>> {
        self.0.lock().members.get(&entry).cloned()
    }

    /// Takes note that a member is not in the store. If a create of it may still arrive, whoever leaves for it sees to
    /// that.
    pub(crate) fn mark_gone(&self, member: &Arc<Member>) {
        if member.certain_revision().is_some() {
            self.0.forget(member);
        }
    }

    /// Sees to it that a member that is not in the store does not come: nobody leaves for one that only tried, or was refused.
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

    /// An entry was told that it is gone, and may never be heard of again. One that has a lease of its own is not looked after by
    /// anybody else: whatever is left of it goes with the lease.
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
            let until = self.0.keeper.now() + entry.ttl.max(TOMBSTONE_TTL);
            self.0.lock().tombstones.insert(entry.id, until);
        }
        match self.find(entry.id) {
            Some(member) => self.0.remove_entry(&member, in_doubt).await,
            None => Ok(false),
        }
    }

    /// Ends the sessions that nobody has a slot in, and waits until nothing is left of them, nor of any other lease that is over.
    pub(crate) async fn give_back(&self) {
        let openings: Vec<_> =
            self.0.lock().classes.values().filter_map(|class| class.opening.clone()).collect();
        for mut opening in openings {
            // Whoever wanted it may be gone. If it fails there is none.
            let _ = opening.wait_for(Option::is_some).await;
        }
        task::end_idle(&self.0);
        let mut revoking = self.0.revoking.subscribe();
        // The sender lives as long as we do.
        let _ = revoking.wait_for(|leases| *leases == 0).await;
    }

    /// Whether an entry left for good while a create of it was in doubt.
    pub(crate) fn has_tombstone(&self, entry: EntryId) -> bool {
        let now = self.0.keeper.now();
        let mut registry = self.0.lock();
        if registry.tombstones.is_empty() {
            return false;
        }
        registry.tombstones.retain(|_, until| *until > now);
        registry.tombstones.contains_key(&entry)
    }
}

impl Pool {
    /// Makes an entry a member under a shared lease, which is opened if need be.
    async fn reserve(self: &Arc<Self>, entry: &Entry) -> Result<Arc<Member>, Failure> {
        let seconds = seconds(entry.ttl);
        loop {
            let mut opening = {
                let mut registry = self.lock();
                if let Some(member) = registry.reserve(entry, &self.prefix, self.keeper.now()) {
                    return Ok(member);
                }
                let class = registry.classes.entry(seconds).or_default();
                match &class.opening {
                    Some(opening) => opening.clone(),
                    None => open::open_shared(self, class, seconds),
                }
            };
            let opened = opening.wait_for(Option::is_some).await.map(|opened| opened.clone());
            match opened {
                Ok(Some(Err(failure))) => return Err(failure),
                Ok(_) => {}
                // The task was dropped.
                Err(_) => {
                    self.lock().classes.entry(seconds).or_default().opening = None;
                    return Err(Failure::new(Kind::Unavailable, "the keeper has ended").unsent());
                }
            }
        }
    }

    fn forget(&self, member: &Arc<Member>) {
        let mut registry = self.lock();
        if registry.members.get(&member.entry.id).is_some_and(|known| Arc::ptr_eq(known, member)) {
            registry.members.remove(&member.entry.id);
        }
        drop(registry);
        member.session.remove_member(member, self.keeper.now());
        if member.session.is_private() && !member.session.has_ended() {
            member.session.end();
            task::revoke_lease(self, member.session.lease(), member.session.late_grant);
        }
    }

    /// Leaves for a member. It is over from here on, whatever the store answers: no answer under way brings it back.
    async fn remove_entry(self: &Arc<Self>, member: &Arc<Member>, in_doubt: bool) -> Result<bool, Failure> {
        let expired = member.end(self.keeper.now());
        let place = member.certain_revision().filter(|_| !in_doubt);
        let was_there = member.session.remove_entry(&self.client, member, place).await?;
        self.forget(member);
        Ok(was_there && !expired)
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // Nothing panics while the registry is held, and each change to it is whole.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let registry = std::mem::take(self.registry.get_mut().unwrap_or_else(PoisonError::into_inner));
        for session in registry.classes.into_values().flat_map(|class| class.sessions) {
            session.end();
            task::revoke_lease(self, session.lease(), session.late_grant);
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registry = self.0.lock();
        let sessions: usize = registry.classes.values().map(|class| class.sessions.len()).sum();
        f.debug_struct("Sessions")
            .field("sessions", &sessions)
            .field("members", &registry.members.len())
            .finish()
    }
}
