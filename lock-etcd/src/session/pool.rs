//! [`Pool`]: the sessions, and their members.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use lock_core::{
    BootTime, Entry, EntryId, Keeper,
    sync::{Mutex, MutexGuard},
};
use tokio::sync::watch;

use super::{
    member::{Member, Session},
    observer::SessionObserver,
    reap::reap,
};
use crate::{client::Client, error::Failure, keys::Keys};

/// So many entries share a lease at the most: all writes of a cluster wait while a lease with its keys is revoked, and
/// some versions are slower for ever after 10 000 (E6, E13).
pub(super) const MAX_SLOTS: usize = 1_000;

/// What the keeper's tasks share with their owner.
///
/// ### To ensure correctness
/// An entry becomes a member, and a session that is over leaves the registry, under the registry's lock: so the end of a session
/// finds all its members. Locks are taken in one order: the registry, a session, a member. None is held over an `await`.
pub(super) struct Pool {
    /// For tasks that end with it.
    this: Weak<Self>,
    pub(super) client: Client,
    pub(super) keeper: Keeper,
    pub(super) prefix: String,
    pub(super) observer: Arc<dyn SessionObserver>,
    registry: Mutex<Registry>,
    /// How many leases are being revoked.
    pub(super) revoking: watch::Sender<usize>,
}

#[derive(Default)]
pub(super) struct Registry {
    /// By the ttl in whole seconds.
    pub(super) classes: HashMap<u64, SessionClass>,
    pub(super) members: HashMap<EntryId, Arc<Member>>,
    /// Entries that left while a create was in doubt, and until when they may not come back (PR08).
    pub(super) tombstones: BTreeMap<EntryId, BootTime>,
}

/// A session that is being opened: for all who wait for it.
pub(super) type OpenTask = watch::Receiver<Option<Result<Arc<Session>, Failure>>>;

#[derive(Default)]
pub(super) struct SessionClass {
    pub(super) sessions: Vec<Arc<Session>>,
    pub(super) opening: Option<OpenTask>,
}

impl Registry {
    /// Makes an entry a member where there is a slot under a shared lease.
    pub(super) fn reserve(&mut self, entry: &Entry, prefix: &str, now: BootTime) -> Option<Arc<Member>> {
        let class = self.classes.get(&seconds(entry.ttl))?;
        let session = class.sessions.iter().find(|session| session.reserve(MAX_SLOTS, now))?;
        let session = Arc::clone(session);
        Some(self.add_member(entry, prefix, &session, now))
    }

    /// Makes an entry a member of a session that has a slot for it.
    pub(super) fn add_member(
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
pub(super) fn seconds(ttl: Duration) -> u64 {
    ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)
}

impl Pool {
    pub(super) fn new(client: Client, prefix: String, observer: Arc<dyn SessionObserver>) -> Arc<Self> {
        let keeper = client.keeper().clone();
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            client,
            keeper,
            prefix,
            observer,
            registry: Mutex::default(),
            revoking: watch::Sender::new(0),
        })
    }

    /// A member is not in the store any more, and nothing creates it.
    pub(super) fn forget(&self, member: &Arc<Member>) {
        let mut registry = self.lock();
        if registry.members.get(&member.entry.id).is_some_and(|known| Arc::ptr_eq(known, member)) {
            registry.members.remove(&member.entry.id);
        }
        drop(registry);
        member.session.remove_member(member, self.keeper.now());
        if member.session.is_private() && !member.session.has_ended() {
            member.session.end();
            self.reap(member.session.lease(), member.session.late_grant, |_| {});
        }
    }

    /// Revokes a lease that is over until that is confirmed. `late`: until when a grant of it may be carried out.
    pub(super) fn reap(&self, lease: i64, late: Option<BootTime>, then: impl FnOnce(&Self) + Send + 'static) {
        reap(&self.client, &self.revoking, Weak::clone(&self.this), (lease, late), then);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let registry = std::mem::take(self.registry.get_mut());
        for session in registry.classes.into_values().flat_map(|class| class.sessions) {
            session.end();
            self.reap(session.lease(), session.late_grant, |_| {});
        }
    }
}
