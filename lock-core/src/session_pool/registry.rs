//! [`Registry`]: the sessions of a pool, and the members of each.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use tokio::sync::watch;

use super::{
    kind::{PooledMember, PooledSession, SessionKind},
    slots::{Capacity, Slots},
};
use crate::{BootTime, EntryId, tombstones::Tombstones};

/// The outcome of opening a session, for all that wait for it.
pub(super) type Opening<K> = watch::Receiver<Option<Result<(), <K as SessionKind>::Failure>>>;

/// What a pool knows.
///
/// ### To ensure correctness
/// All of it is behind one lock, under which an entry becomes a member, a session is closed as idle, and one that is over leaves its
/// class. So the end of a session finds all its members, and no entry gets a slot in a session that was closed.
pub(super) struct Registry<K: SessionKind> {
    pub(super) classes: BTreeMap<Duration, SessionClass<K>>,
    /// By the address of the session, which stays where it is while its record has it. A store may give the same id twice.
    records: HashMap<usize, SessionRecord<K>>,
    pub(super) members: HashMap<EntryId, Arc<K::Member>>,
    pub(super) tombstones: Tombstones,
}

/// The sessions that give slots to entries of one class.
pub(super) struct SessionClass<K: SessionKind> {
    sessions: Vec<Arc<K::Session>>,
    pub(super) opening: Option<Opening<K>>,
}

/// What a pool knows of one session.
struct SessionRecord<K: SessionKind> {
    session: Arc<K::Session>,
    slots: Slots,
    members: HashMap<EntryId, Arc<K::Member>>,
    /// It is in a class. A session of one entry never is.
    shared: bool,
    /// It was closed as idle, and gives no more slots.
    closed: bool,
    /// Members whose time is over are being removed.
    sweeping: bool,
}

impl<K: SessionKind> Registry<K> {
    /// Whether an entry may become a member: it is none, and has no tombstone.
    pub(super) fn may_join(&mut self, entry: EntryId, now: BootTime) -> bool {
        !self.members.contains_key(&entry) && !self.tombstones.contains(entry, now)
    }

    /// Makes an entry a member of a session that is open and has room for its size.
    pub(super) fn join(
        &mut self,
        class: Duration,
        capacity: Capacity,
        size: usize,
        make: impl Fn(&Arc<K::Session>) -> K::Member,
        now: BootTime,
    ) -> Option<Arc<K::Member>> {
        let sessions = &self.classes.get(&class)?.sessions;
        let session = sessions.iter().find(|session| {
            let record = self.records.get_mut(&address(session)).filter(|record| record.is_open(now));
            record.is_some_and(|record| record.slots.take(capacity, size, now))
        })?;
        let member = Arc::new(make(session));
        self.add_member(&member, now);
        Some(member)
    }

    pub(super) fn add_member(&mut self, member: &Arc<K::Member>, now: BootTime) {
        let session = member.session();
        let record = self.records.entry(address(session));
        let record = record.or_insert_with(|| SessionRecord::new(session, false, now));
        record.members.insert(member.id(), Arc::clone(member));
        self.members.insert(member.id(), Arc::clone(member));
    }

    /// Removes this member, but not another one for its entry. False if it was not there.
    pub(super) fn remove_member(&mut self, member: &Arc<K::Member>, now: BootTime) -> bool {
        let entry = member.id();
        if self.members.get(&entry).is_none_or(|known| !Arc::ptr_eq(known, member)) {
            return false;
        }
        self.members.remove(&entry);
        let address = address(member.session());
        if let Some(record) = self.records.get_mut(&address) {
            record.members.remove(&entry);
            record.slots.release(member.size(), now);
            if !member.give_back() {
                record.slots.lose();
            }
            if record.is_unused() {
                self.records.remove(&address);
            }
        }
        true
    }

    pub(super) fn members_of(&self, session: &Arc<K::Session>) -> Vec<Arc<K::Member>> {
        let record = self.records.get(&address(session));
        record.map(|record| record.members.values().cloned().collect()).unwrap_or_default()
    }

    /// All sessions, each with its class.
    pub(super) fn sessions(&self) -> Vec<(Arc<K::Session>, Duration)> {
        let mut sessions = Vec::new();
        for (class, known) in &self.classes {
            sessions.extend(known.sessions.iter().map(|session| (Arc::clone(session), *class)));
        }
        sessions
    }

    /// A session that is open, of this class or of any. It counts as used now.
    pub(super) fn open_session(&mut self, class: Option<Duration>, now: BootTime) -> Option<Arc<K::Session>> {
        let classes = self.classes.iter().filter(|(known, _)| class.is_none_or(|class| class == **known));
        for session in classes.flat_map(|(_, known)| &known.sessions) {
            let record = self.records.get_mut(&address(session));
            if let Some(record) = record.filter(|record| record.is_open(now)) {
                record.slots.mark_used(now);
                return Some(Arc::clone(session));
            }
        }
        None
    }

    /// Adds a session that was opened for a class.
    pub(super) fn add_session(&mut self, class: Duration, session: &Arc<K::Session>, now: BootTime) {
        self.classes.entry(class).or_default().sessions.push(Arc::clone(session));
        self.records.insert(address(session), SessionRecord::new(session, true, now));
    }

    /// Takes a session out of its class. False if it was not there.
    pub(super) fn remove_session(&mut self, class: Duration, session: &Arc<K::Session>) -> bool {
        let Some(known) = self.classes.get_mut(&class) else { return false };
        let Some(at) = known.sessions.iter().position(|known| Arc::ptr_eq(known, session)) else {
            return false;
        };
        known.sessions.remove(at);
        if let Some(record) = self.records.get_mut(&address(session)) {
            record.shared = false;
            if record.is_unused() {
                self.records.remove(&address(session));
            }
        }
        true
    }

    /// Closes a session if no slot was in use for so long.
    pub(super) fn close_if_idle(&mut self, session: &Arc<K::Session>, idle: Duration, now: BootTime) -> bool {
        let Some(record) = self.records.get_mut(&address(session)) else { return false };
        let close = record.slots.are_idle(idle, now);
        record.closed |= close;
        close
    }

    /// The members of a session whose time is over, if nobody is removing any.
    pub(super) fn begin_sweep(&mut self, session: &Arc<K::Session>, now: BootTime) -> Vec<Arc<K::Member>> {
        let record = self.records.get_mut(&address(session)).filter(|record| !record.sweeping);
        let Some(record) = record else { return Vec::new() };
        let overdue: Vec<_> =
            record.members.values().filter(|member| member.is_overdue(now)).cloned().collect();
        record.sweeping = !overdue.is_empty();
        overdue
    }

    pub(super) fn end_sweep(&mut self, session: &Arc<K::Session>) {
        if let Some(record) = self.records.get_mut(&address(session)) {
            record.sweeping = false;
        }
    }
}

impl<K: SessionKind> SessionRecord<K> {
    fn new(session: &Arc<K::Session>, shared: bool, opened: BootTime) -> Self {
        Self {
            session: Arc::clone(session),
            slots: Slots::new(opened),
            members: HashMap::new(),
            shared,
            closed: false,
            sweeping: false,
        }
    }

    fn is_open(&self, now: BootTime) -> bool {
        !self.closed && self.session.is_alive(now)
    }

    /// Nothing needs it any more.
    fn is_unused(&self) -> bool {
        !self.shared && self.members.is_empty()
    }
}

fn address<S>(session: &Arc<S>) -> usize {
    Arc::as_ptr(session).addr()
}

impl<K: SessionKind> Default for Registry<K> {
    fn default() -> Self {
        Self {
            classes: BTreeMap::new(),
            records: HashMap::new(),
            members: HashMap::new(),
            tombstones: Tombstones::default(),
        }
    }
}

impl<K: SessionKind> Default for SessionClass<K> {
    fn default() -> Self {
        Self { sessions: Vec::new(), opening: None }
    }
}
