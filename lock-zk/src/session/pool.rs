//! [`Pool`]: all sessions of one backend, and their members.

use std::{
    collections::BTreeMap,
    ptr,
    sync::{Arc, Weak},
    time::Duration,
};

use lock_core::{
    EntryId, Keeper, Notifier,
    sync::{Mutex, MutexGuard},
};
use tokio::sync::watch;
use zookeeper_client::Acl;

use super::{
    member::Member, members::Members, session::Session, settings::SessionSettings, tombstones::Tombstones,
};
use crate::{ZkConfig, client::Ensemble, error::Failure, keys::Keys};

/// What `Sessions` and the tasks on the keeper share.
pub(super) struct Pool {
    /// For tasks that end when the pool is dropped.
    pub(super) this: Weak<Self>,
    pub(super) config: Arc<ZkConfig>,
    pub(super) ensemble: Ensemble,
    pub(super) acl: Vec<Acl>,
    pub(super) keys: Keys,
    pub(super) keeper: Keeper,
    pub(super) notifier: Notifier,
    registry: Mutex<Registry>,
}

#[derive(Default)]
pub(super) struct Registry {
    /// By the timeout that was asked for.
    pub(super) classes: BTreeMap<Duration, SessionClass>,
    pub(super) members: Members,
    pub(super) tombstones: Tombstones,
}

/// The sessions for which one timeout was asked.
#[derive(Default)]
pub(super) struct SessionClass {
    pub(super) sessions: Vec<Arc<Session>>,
    pub(super) opening: Option<OpenTask>,
}

/// The outcome of opening a session, for everything that waits for it.
pub(super) type OpenTask = watch::Receiver<Option<Result<Arc<Session>, Failure>>>;

impl Pool {
    pub(super) fn new(ensemble: Ensemble, acl: Vec<Acl>, keeper: Keeper) -> Arc<Self> {
        let config = Arc::clone(&ensemble.config);
        let keys = config.keys();
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            config,
            ensemble,
            acl,
            keys,
            keeper,
            notifier: Notifier::default(),
            registry: Mutex::default(),
        })
    }

    /// Forgets a member that is not in the store and will not be.
    pub(super) fn forget(&self, member: &Arc<Member>) {
        let was_there = self.lock().members.remove(member);
        if was_there {
            member.session.release(member.size());
        }
    }

    /// The entries that a session keeps alive.
    pub(super) fn members_of(&self, session: &Session) -> Vec<Arc<Member>> {
        self.lock().members.of(session)
    }

    /// Whether a session keeps an entry alive.
    pub(super) fn is_member_of(&self, entry: EntryId, session: &Session) -> bool {
        self.lock().members.get(entry).is_some_and(|member| ptr::eq(Arc::as_ptr(&member.session), session))
    }

    /// Raises an alarm for all entries that a session keeps alive.
    pub(super) fn notify_members(&self, session: &Session) {
        for member in self.members_of(session) {
            self.notifier.alarm(member.entry.id);
        }
    }

    pub(super) fn settings(&self) -> SessionSettings {
        let (tick, command_timeout) = (self.config.tick, self.config.server.command_timeout);
        SessionSettings {
            keeper: self.keeper.clone(),
            tick,
            command_timeout,
            address: self.config.to_string().into(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let registry = std::mem::take(self.registry.get_mut());
        for session in registry.classes.into_values().flat_map(|class| class.sessions) {
            // Dropping the last reference to the client closes the session.
            session.end();
        }
    }
}
