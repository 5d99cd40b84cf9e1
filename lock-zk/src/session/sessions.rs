//! [`Sessions`]: the sessions of one backend, and their members.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::future::{join, join_all};
use lock_core::{BackendErrorKind as Kind, Entry, EntryId, Keeper, Notifier};
use zookeeper_client::Acl;

use super::{base_nodes, member::Member, open, pool::Pool, session::Session, slots, ttl_class};
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

    /// The member for an entry, an existing one or a new one. From here on it has a dead-man's timer. `None` if its session has ended or
    /// the entry was left for: with another session it would be another entry (H08).
    pub(crate) async fn join(&self, entry: &Entry, lock: &str) -> Result<Option<Arc<Member>>, Failure> {
        if let Some(member) = self.find(entry.id) {
            return Ok(member.is_alive(self.0.keeper.now()).then_some(member));
        }
        let path = format!("{lock}/{}", self.0.keys.entry_prefix(entry));
        let size = slots::size(path.len());
        let session = reserve(&self.0, ttl_class::timeout(entry.ttl, self.0.config.tick), size).await?;
        let now = self.0.keeper.now();
        let mut registry = self.0.lock();
        if registry.tombstones.contains(entry.id, now) || registry.members.get(entry.id).is_some() {
            drop(registry);
            session.release(size);
            return Ok(None);
        }
        let member = Arc::new(Member::new(entry, &path, session, now));
        registry.members.insert(&member);
        Ok(Some(member))
    }

    /// The member for an entry.
    pub(crate) fn find(&self, entry: EntryId) -> Option<Arc<Member>> {
        self.0.lock().members.get(entry)
    }

    /// Any session: for people and tools, which keep nothing alive.
    pub(crate) async fn any(&self) -> Result<Arc<Session>, Failure> {
        let now = self.0.keeper.now();
        let open = {
            let registry = self.0.lock();
            registry
                .classes
                .values()
                .flat_map(|class| &class.sessions)
                .find(|session| session.is_alive(now))
                .cloned()
        };
        if let Some(session) = open {
            return Ok(session);
        }
        // A short one suffices: nothing is lost with it, and it lives for as long as a command may take.
        self.for_ttl(self.0.config.server.command_timeout).await
    }

    /// A session of the shortest timeout that this backend asks for. No slot in it is reserved.
    pub(crate) async fn shortest(&self) -> Result<Arc<Session>, Failure> {
        self.for_ttl(Duration::ZERO).await
    }

    async fn for_ttl(&self, ttl: Duration) -> Result<Arc<Session>, Failure> {
        let session = reserve(&self.0, ttl_class::timeout(ttl, self.0.config.tick), 0).await?;
        session.release(0);
        Ok(session)
    }

    /// How long ago the sessions of these ids made their last heartbeats. The servers do not tell when they last heard of a session, nor
    /// what time it is. But they tell when a node was written, so one is written now to compare with.
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

    /// Makes the nodes above those of locks, if they are not there.
    pub(crate) async fn make_base_nodes(&self, session: &Session) -> Result<(), Failure> {
        base_nodes::make_base_nodes(&self.0, session, &*session.client()?).await
    }

    /// Takes note that a member is not in the store. If a create may still be in flight, the cleanup task handles it.
    pub(crate) fn mark_gone(&self, member: &Arc<Member>) {
        if member.unanswered_creates() == 0 {
            self.0.forget(member);
        }
    }

    /// Removes an entry from the store. True if it was there. An entry that is no member was never created by this process, or is known
    /// to be gone.
    ///
    /// # Errors
    /// If it is not known to be done.
    pub(crate) async fn leave(&self, entry: &Entry, in_doubt: bool) -> Result<bool, Failure> {
        let member = {
            let mut registry = self.0.lock();
            if in_doubt {
                registry.tombstones.insert(entry.id, entry.ttl, self.0.keeper.now());
            }
            registry.members.get(entry.id)
        };
        match member {
            Some(member) => self.0.remove_entry(&member).await,
            None => Ok(false),
        }
    }

    /// Closes the sessions without members. The client does not tell when that is done.
    pub(crate) fn close_idle(&self) {
        let now = self.0.keeper.now();
        let mut sessions = Vec::new();
        for class in self.0.lock().classes.values() {
            sessions.extend(class.sessions.iter().cloned());
        }
        // Their tasks find them ended.
        let idle = sessions.iter().filter(|session| session.close_if_idle(Duration::ZERO, now)).count();
        tracing::trace!(idle, "zookeeper sessions given back");
    }

    /// The same for an entry that may not wait, or was refused.
    pub(crate) async fn remove_entry(&self, member: &Arc<Member>) -> Result<bool, Failure> {
        self.0.remove_entry(member).await
    }
}

/// Reserves a slot in a shared session, for a node of this size.
async fn reserve(pool: &Arc<Pool>, timeout: Duration, size: usize) -> Result<Arc<Session>, Failure> {
    loop {
        let mut opening = {
            let now = pool.keeper.now();
            let mut registry = pool.lock();
            let class = registry.classes.entry(timeout).or_default();
            let free = class.sessions.iter().find(|session| session.reserve(size, now));
            if let Some(session) = free {
                return Ok(Arc::clone(session));
            }
            match &class.opening {
                Some(opening) => opening.clone(),
                None => open::open(pool, class, timeout),
            }
        };
        let opened = opening.wait_for(Option::is_some).await.map(|opened| opened.clone());
        match opened {
            Ok(Some(Err(failure))) => return Err(failure),
            Ok(_) => {}
            // The task that opened it was dropped.
            Err(_) => {
                pool.lock().classes.entry(timeout).or_default().opening = None;
                return Err(Failure::new(Kind::Unavailable, "the keeper has ended").unsent());
            }
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
