//! [`Sessions`]: the sessions of one backend, and their members.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::future::{join, join_all};
use lock_core::{Entry, EntryId, Keeper, Notifier, isolate, session_pool};
use zookeeper_client::Acl;

use super::{base_nodes, capacity::size, member::Member, pool::Pool, session::Session, ttl_class};
use crate::{ZkConfig, client::Ensemble, error::Failure, keys::Keys};

/// All sessions of one backend.
pub(crate) struct Sessions(Arc<Pool>);

impl Sessions {
    pub(crate) fn new(ensemble: Ensemble, acl: Vec<Acl>, keeper: Keeper) -> Self {
        Self(Pool::new(ensemble, acl, keeper))
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub(crate) fn acl(&self) -> &[Acl] {
        &self.0.acl
    }

    pub(crate) fn ensemble(&self) -> &Ensemble {
        &self.0.ensemble
    }

    pub(crate) fn config(&self) -> &ZkConfig {
        &self.0.config
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.0.keeper
    }

    pub(crate) fn notifier(&self) -> &Notifier {
        &self.0.notifier
    }

    /// The member for an entry, an existing one or a new one. From here on the entry has a dead-man's timer. `None` if its session has
    /// ended, because with another session it would be another entry (H08), or if the entry has left.
    pub(crate) async fn join(&self, entry: &Entry, lock: &str) -> Result<Option<Arc<Member>>, Failure> {
        if let Some(member) = self.find(entry.id) {
            return Ok(member.is_alive(self.0.keeper.now()).then_some(member));
        }
        let path = format!("{lock}/{}", self.0.keys.entry_prefix(entry));
        let timeout = ttl_class::timeout(entry.ttl, self.0.config.tick);
        let make = |session: &Arc<Session>| Member::new(entry, &path, session, self.0.keeper.now());
        session_pool::join(&self.0, entry.id, timeout, size(path.len()), make).await
    }

    /// The member for an entry.
    pub(crate) fn find(&self, entry: EntryId) -> Option<Arc<Member>> {
        self.0.sessions.find(entry)
    }

    /// Any session, for the operations of operators and tools, which keep nothing alive.
    pub(crate) async fn any(&self) -> Result<Arc<Session>, Failure> {
        if let Some(session) = self.0.sessions.any_session() {
            return Ok(session);
        }
        // A short session suffices: nothing is lost with it, and it lives for as long as a command may take.
        self.for_ttl(self.0.config.server.command_timeout).await
    }

    /// A session of the shortest timeout that this backend requests.
    pub(crate) async fn shortest(&self) -> Result<Arc<Session>, Failure> {
        self.for_ttl(Duration::ZERO).await
    }

    async fn for_ttl(&self, ttl: Duration) -> Result<Arc<Session>, Failure> {
        session_pool::session(&self.0, ttl_class::timeout(ttl, self.0.config.tick)).await
    }

    /// How long ago the sessions with these ids made their last heartbeats. The servers do not tell when they last heard from a session, nor
    /// what time it is. But they tell when a node was written, so this writes a node to compare with.
    pub(crate) async fn ages(
        &self,
        session: &Session,
        owners: &BTreeSet<i64>,
    ) -> Result<BTreeMap<i64, Duration>, Failure> {
        let client = session.client()?;
        let heartbeat_nodes: Vec<_> = owners.iter().map(|owner| self.0.keys.session(*owner)).collect();
        let looks =
            join_all(heartbeat_nodes.iter().map(|node| session.answer("a look", client.check_stat(node))));
        let (written, seen) = join(base_nodes::write_clock(&self.0, session), looks).await;
        let stat = written?;
        let mut ages = BTreeMap::new();
        for (owner, node) in owners.iter().zip(seen) {
            let heard = node?.map_or(stat.mtime, |node| node.mtime);
            ages.insert(*owner, Duration::from_millis(u64::try_from(stat.mtime - heard).unwrap_or_default()));
        }
        Ok(ages)
    }

    /// Creates the nodes above those of locks, if they do not exist.
    pub(crate) async fn make_base_nodes(&self, session: &Session) -> Result<(), Failure> {
        base_nodes::make_base_nodes(&self.0, session, &*session.client()?).await
    }

    /// Records that a member is not in the store. If a create may still be in flight, the cleanup task handles it.
    pub(crate) fn mark_gone(&self, member: &Arc<Member>) {
        if member.unanswered_creates() == 0 {
            self.0.sessions.forget(member);
        }
    }

    /// Removes an entry from the store. Returns whether it was there. An entry without a member was never created by this process, or is
    /// known to be gone.
    ///
    /// # Errors
    /// If it is unknown whether this was done.
    pub(crate) async fn leave(&self, entry: &Entry, in_doubt: bool) -> Result<bool, Failure> {
        if in_doubt {
            self.0.sessions.add_tombstone(entry.id, entry.ttl);
        }
        match self.find(entry.id) {
            Some(member) => self.0.remove_entry(&member).await,
            None => Ok(false),
        }
    }

    /// Closes the sessions without members. The client does not tell when that is done.
    pub(crate) fn close_idle(&self) {
        let idle = self.0.sessions.close_idle();
        // The tasks of these sessions notice that they have ended.
        for (session, _) in &idle {
            session.close();
        }
        isolate(|| tracing::trace!(idle = idle.len(), "zookeeper sessions given back"));
    }

    /// The same for an entry that must not wait, or was refused.
    pub(crate) async fn remove_entry(&self, member: &Arc<Member>) -> Result<bool, Failure> {
        self.0.remove_entry(member).await
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.sessions.fmt(f)
    }
}
