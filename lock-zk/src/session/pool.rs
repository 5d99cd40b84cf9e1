//! [`Pool`]: the sessions of one backend, and what they need.

use std::sync::{Arc, Weak};

use lock_core::{
    Keeper, Notifier,
    session_pool::{SessionKind, SessionPool},
};
use zookeeper_client::Acl;

use super::{capacity::CAPACITY, member::Member, session::Session, settings::SessionSettings};
use crate::{ZkConfig, client::Ensemble, error::Failure, keys::Keys};

/// The state that `Sessions` and the tasks on the keeper share.
pub(super) struct Pool {
    /// For tasks that end when the pool is dropped.
    pub(super) this: Weak<Self>,
    pub(super) config: Arc<ZkConfig>,
    pub(super) ensemble: Ensemble,
    pub(super) acl: Vec<Acl>,
    pub(super) keys: Keys,
    pub(super) keeper: Keeper,
    pub(super) notifier: Notifier,
    /// The shared sessions. Their class is the requested timeout.
    pub(super) sessions: SessionPool<Self>,
}

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
            sessions: SessionPool::new(keeper.clone(), CAPACITY),
            keeper,
            notifier: Notifier::default(),
        })
    }

    /// Raises an alarm for all entries that a session keeps alive.
    pub(super) fn notify_members(&self, session: &Arc<Session>) {
        for member in self.sessions.members_of(session) {
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
}

impl SessionKind for Pool {
    type Session = Session;
    type Member = Member;
    type Failure = Failure;
}

impl Drop for Pool {
    fn drop(&mut self) {
        for session in self.sessions.take_sessions() {
            // Dropping the last reference to the client closes the session.
            session.end();
        }
    }
}
