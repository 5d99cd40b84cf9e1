//! [`Pool`]: the sessions of one backend, and what they need.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use lock_core::{
    BootTime, Keeper,
    session_pool::{Capacity, SessionKind, SessionPool},
};
use tokio::sync::watch;

use super::{member::Member, observer::SessionObserver, reap::reap, session::Session};
use crate::{client::Client, error::Failure};

/// How many entries share a lease: all writes of a cluster wait while a lease with its keys is revoked, and
/// some versions stay slower forever after 10 000 (E6, E13). Keys need no limit in bytes, because a revoke names only the lease.
const CAPACITY: Capacity = Capacity { slots: 1_000, bytes: usize::MAX };

/// The state that the keeper's tasks share with their owner.
///
/// ### To ensure correctness
/// Locks are taken in one order: the registry of the sessions, then a member or a session. None is held over an `await`.
pub(super) struct Pool {
    /// For tasks that end when the pool is dropped.
    this: Weak<Self>,
    pub(super) client: Client,
    pub(super) keeper: Keeper,
    pub(super) prefix: String,
    pub(super) observer: Arc<dyn SessionObserver>,
    /// The shared sessions. Their class is their ttl in whole seconds.
    pub(super) sessions: SessionPool<Self>,
    /// The number of leases that are being revoked.
    pub(super) revoking: watch::Sender<usize>,
}

/// The class of an entry with this ttl: whole seconds, rounded up, which is what leases are granted for.
pub(super) fn class(ttl: Duration) -> Duration {
    Duration::from_secs(ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0))
}

impl Pool {
    pub(super) fn new(client: Client, prefix: String, observer: Arc<dyn SessionObserver>) -> Arc<Self> {
        let keeper = client.keeper().clone();
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            client,
            sessions: SessionPool::new(keeper.clone(), CAPACITY),
            keeper,
            prefix,
            observer,
            revoking: watch::Sender::new(0),
        })
    }

    /// Forgets a member that is not in the store any more, and that no request can create.
    pub(super) fn forget(&self, member: &Arc<Member>) {
        self.sessions.forget(member);
        if member.session.is_private() && !member.session.has_ended() {
            self.end_private(&member.session);
        }
    }

    /// Ends a session of one entry, which nothing needs any more.
    pub(super) fn end_private(&self, session: &Session) {
        session.end();
        self.reap(session.lease(), session.late_grant, |_| {});
    }

    /// Revokes a lease that has ended until that is confirmed. `late`: until when a grant of it may be carried out.
    pub(super) fn reap(&self, lease: i64, late: Option<BootTime>, then: impl FnOnce(&Self) + Send + 'static) {
        reap(&self.client, &self.revoking, Weak::clone(&self.this), (lease, late), then);
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
            session.end();
            self.reap(session.lease(), session.late_grant, |_| {});
        }
    }
}
