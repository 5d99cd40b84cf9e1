//! [`Sessions`]: what keeps our entries alive, and who stands under which.
//!
//! One session for each class of ttl, shared by as many entries as it has [room](slots) for, driven and kept by the keeper. Whatever a
//! shared session keeps alive beyond its time is taken away here: see [`task`].

mod evictions;
mod heartbeat;
mod leave;
mod liveness;
mod member;
mod members;
mod open;
mod queue;
mod read_permits;
mod reap;
mod reconnect;
#[expect(clippy::module_inception, reason = "the one main type of the file")]
mod session;
mod slots;
mod task;
pub(crate) mod ttl_class;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, ptr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::future::{join, join_all};
use lock_core::{BackendErrorKind as Kind, BootTime, Entry, EntryId, Keeper};
use tokio::sync::watch;
use zookeeper_client::{Acl, Acls, CreateMode, Stat};

use self::members::Members;
pub(crate) use self::{
    heartbeat::period,
    leave::{search, token},
    member::{DeletionWatch, Member, OwnNode},
    queue::{read_listed, read_queue},
    session::Session,
};
use crate::{
    ZkConfig,
    connection::Route,
    error::{Cause, Failure},
    keys::Keys,
    notify::Notifier,
};

/// How long an entry that left while a create of it was in doubt is kept out by a tombstone in this process.
const TOMBSTONE_TTL: Duration = Duration::from_secs(60);

/// All sessions of one backend.
pub(crate) struct Sessions(Arc<Pool>);

/// What the keeper's tasks and their owner share.
pub(crate) struct Pool {
    /// For tasks that end with it.
    this: Weak<Self>,
    config: Arc<ZkConfig>,
    route: Route,
    acl: Vec<Acl>,
    keys: Keys,
    keeper: Keeper,
    pub(crate) notifier: Notifier,
    registry: Mutex<Registry>,
}

#[derive(Default)]
struct Registry {
    /// By the timeout that is asked for.
    classes: BTreeMap<Duration, SessionClass>,
    members: Members,
    /// Entries that left, until when they may not come back (PR08).
    tombstones: BTreeMap<EntryId, BootTime>,
}

/// What sessions need to know of the configuration.
#[derive(Clone)]
struct SessionSettings {
    keeper: Keeper,
    tick: Duration,
    command_timeout: Duration,
    /// Where the ensemble is, for people.
    address: Arc<str>,
}

/// A session that is being opened: for all who wait for it.
type OpenTask = watch::Receiver<Option<Result<Arc<Session>, Failure>>>;

#[derive(Default)]
struct SessionClass {
    sessions: Vec<Arc<Session>>,
    opening: Option<OpenTask>,
}

impl Sessions {
    pub(crate) fn new(route: Route, acl: Vec<Acl>, keeper: Keeper) -> Self {
        let config = Arc::clone(&route.config);
        let keys = config.keys();
        Self(Arc::new_cyclic(|this| Pool {
            this: Weak::clone(this),
            config,
            route,
            acl,
            keys,
            keeper,
            notifier: Notifier::default(),
            registry: Mutex::default(),
        }))
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.0.keys
    }

    pub(crate) fn acl(&self) -> &[Acl] {
        &self.0.acl
    }

    pub(crate) fn route(&self) -> &Route {
        &self.0.route
    }

    pub(crate) fn notifier(&self) -> &Notifier {
        &self.0.notifier
    }

    /// The member that an entry is, or becomes: from here on it has a dead-man's timer. `None` if its session has died, or
    /// somebody has left for it: with another session it would be another entry (H08).
    pub(crate) async fn join(&self, entry: &Entry, lock: &str) -> Result<Option<Arc<Member>>, Failure> {
        if let Some(member) = self.find(entry.id) {
            return Ok(member.is_alive(self.0.keeper.now()).then_some(member));
        }
        let path = format!("{lock}/{}", self.0.keys.entry_prefix(entry));
        let size = slots::size(path.len());
        let session = self.0.reserve(ttl_class::timeout(entry.ttl, self.0.config.tick), size).await?;
        let now = self.0.keeper.now();
        let mut registry = self.0.lock();
        registry.tombstones.retain(|_, until| *until > now);
        if registry.tombstones.contains_key(&entry.id) || registry.members.get(entry.id).is_some() {
            drop(registry);
            session.release(size);
            return Ok(None);
        }
        let member = Arc::new(Member::new(entry, &path, session, now));
        registry.members.insert(&member);
        Ok(Some(member))
    }

    /// The member that an entry is.
    pub(crate) fn find(&self, entry: EntryId) -> Option<Arc<Member>> {
        self.0.lock().members.get(entry)
    }

    /// Whatever session there is: for people and tools, who keep nothing alive.
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
        // It has nothing to lose, and lives for as long as a command may take.
        self.for_ttl(self.0.config.command_timeout).await
    }

    /// A session of the shortest timeout that is asked for. Nobody has a slot in it.
    pub(crate) async fn shortest(&self) -> Result<Arc<Session>, Failure> {
        self.for_ttl(Duration::ZERO).await
    }

    async fn for_ttl(&self, ttl: Duration) -> Result<Arc<Session>, Failure> {
        let session = self.0.reserve(ttl_class::timeout(ttl, self.0.config.tick), 0).await?;
        session.release(0);
        Ok(session)
    }

    /// How long ago the sessions of these ids made their last heartbeats. The servers do not tell when they heard of a session
    /// last, nor what time it is; but they do when they wrote a node, as they do now.
    pub(crate) async fn ages(
        &self,
        session: &Session,
        owners: &BTreeSet<i64>,
    ) -> Result<BTreeMap<i64, Duration>, Failure> {
        let client = session.client()?;
        let heartbeat_nodes: Vec<_> = owners.iter().map(|owner| self.0.keys.session(*owner)).collect();
        let looks =
            join_all(heartbeat_nodes.iter().map(|node| session.answer("a look", client.check_stat(node))));
        let (written, seen) = join(self.0.write_clock(session), looks).await;
        let stat = written?;
        let mut ages = BTreeMap::new();
        for (owner, node) in owners.iter().zip(seen) {
            let heard = node?.map_or(stat.mtime, |node| node.mtime);
            ages.insert(*owner, Duration::from_millis(u64::try_from(stat.mtime - heard).unwrap_or_default()));
        }
        Ok(ages)
    }

    /// Makes what is above the locks, as far as it is not there.
    pub(crate) async fn make_home(&self, session: &Session) -> Result<(), Failure> {
        open::make_home(&self.0, session, &*session.client()?).await
    }

    /// Takes note that a member is not in the store. If a create of it may still arrive, whoever leaves for it sees to
    /// that.
    pub(crate) fn mark_gone(&self, member: &Arc<Member>) {
        if member.unanswered_creates() == 0 {
            self.0.forget(member);
        }
    }

    /// Takes an entry out of the store. True if it was there. One that is no member never was there by us, or is known to
    /// have gone.
    ///
    /// # Errors
    /// If it is not known to be done.
    pub(crate) async fn leave(&self, entry: &Entry, in_doubt: bool) -> Result<bool, Failure> {
        let member = {
            let mut registry = self.0.lock();
            if in_doubt {
                let until = self.0.keeper.now() + entry.ttl.max(TOMBSTONE_TTL);
                registry.tombstones.insert(entry.id, until);
            }
            registry.members.get(entry.id)
        };
        match member {
            Some(member) => self.0.remove_entry(&member).await,
            None => Ok(false),
        }
    }

    /// Closes the sessions that nobody has a slot in. The client does not tell when that is done.
    pub(crate) fn give_back(&self) {
        let now = self.0.keeper.now();
        let mut sessions = Vec::new();
        for class in self.0.lock().classes.values() {
            sessions.extend(class.sessions.iter().cloned());
        }
        // Whoever keeps it finds it ended.
        let idle = sessions.iter().filter(|session| session.close_if_idle(Duration::ZERO, now)).count();
        tracing::trace!(idle, "zookeeper sessions given back");
    }

    /// The same for one that is not to wait, or not to be there.
    pub(crate) async fn remove_entry(&self, member: &Arc<Member>) -> Result<bool, Failure> {
        self.0.remove_entry(member).await
    }
}

impl Pool {
    /// A slot in a shared session, for a node of this size.
    async fn reserve(self: &Arc<Self>, timeout: Duration, size: usize) -> Result<Arc<Session>, Failure> {
        loop {
            let mut opening = {
                let now = self.keeper.now();
                let mut registry = self.lock();
                let class = registry.classes.entry(timeout).or_default();
                let free = class.sessions.iter().find(|session| session.reserve(size, now));
                if let Some(session) = free {
                    return Ok(Arc::clone(session));
                }
                match &class.opening {
                    Some(opening) => opening.clone(),
                    None => open::open(self, class, timeout),
                }
            };
            let opened = opening.wait_for(Option::is_some).await.map(|opened| opened.clone());
            match opened {
                Ok(Some(Err(failure))) => return Err(failure),
                Ok(_) => {}
                // The task was dropped.
                Err(_) => {
                    self.lock().classes.entry(timeout).or_default().opening = None;
                    return Err(Failure::new(Kind::Unavailable, "the keeper has ended").unsent());
                }
            }
        }
    }

    /// Writes a node of a session now, and gives what the server says about it. The node ends with the session: one that was made for
    /// each question would outlive those that are dropped.
    async fn write_clock(&self, session: &Session) -> Result<Stat, Failure> {
        let clock = format!("{}-clock", session.heartbeat_node);
        let ephemeral = CreateMode::Ephemeral.with_acls(Acls::new(&self.acl));
        for _ in 0..2 {
            let client = session.client()?;
            match session.write("a look", client.set_data(&clock, &[])).await {
                Err(failure) if failure.cause() == Cause::NoNode => {}
                written => return written,
            }
            match session.write("a look", client.create(&clock, &[], &ephemeral)).await {
                // Somebody else who asked was quicker.
                Err(failure) if failure.cause() == Cause::NodeExists => {}
                made => return made.map(|(stat, _)| stat),
            }
        }
        let failure = Failure::new(Kind::Unavailable, "somebody deletes the nodes of sessions");
        Err(failure.about(&session.address))
    }

    fn forget(&self, member: &Arc<Member>) {
        let was_there = self.lock().members.remove(member);
        if was_there {
            member.session.release(member.size());
        }
    }

    /// The entries that a session keeps alive.
    fn members_of(&self, session: &Session) -> Vec<Arc<Member>> {
        self.lock().members.of(session)
    }

    /// Whether a session keeps an entry alive.
    fn is_member_of(&self, entry: EntryId, session: &Session) -> bool {
        self.lock().members.get(entry).is_some_and(|member| ptr::eq(&*member.session, session))
    }

    /// Raises an alarm for all entries that a session keeps alive.
    fn notify_members(&self, session: &Session) {
        self.notifier.notify(self.members_of(session).iter().map(|member| member.entry.id));
    }

    fn settings(&self) -> SessionSettings {
        let (tick, command_timeout) = (self.config.tick, self.config.command_timeout);
        SessionSettings {
            keeper: self.keeper.clone(),
            tick,
            command_timeout,
            address: self.config.to_string().into(),
        }
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
            // Whoever drops the last client closes the session.
            session.end();
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
