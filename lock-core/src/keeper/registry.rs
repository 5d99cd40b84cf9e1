//! [`Registry`]: the leases of one client, ordered by when each is due.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use super::held_lease::HeldLease;
use crate::{BootTime, Creates, Entry, EntryId, Hold};

/// A renewal that is due within this time of another goes into the same batch, if the time is short against its ttl.
const BATCH_WINDOW: Duration = Duration::from_secs(1);

/// The leases of one client, and when each needs something. Nothing here runs foreign code: the watchers of a loss are woken once the
/// registry is unlocked.
#[derive(Debug)]
pub(super) struct Registry {
    records: HashMap<EntryId, Record>,
    due: BTreeSet<(BootTime, EntryId)>,
    /// When the task wakes without being notified.
    pub(super) parked_until: BootTime,
    pub(super) started: bool,
    closed: bool,
}

#[derive(Debug)]
pub(super) struct Record {
    due: BootTime,
    tracked: Tracked,
    /// Whether an alarm came for the entry while it waited.
    pub(super) alarmed: bool,
}

#[derive(Debug)]
pub(super) enum Tracked {
    Held(HeldLease),
    /// A waiter, whose future refreshes its lease by entering again.
    Waiting {
        entry: Arc<Entry>,
        creates: Creates,
        /// No answer has told of the entry.
        doubtful: bool,
    },
}

/// An entry that has to leave.
pub(super) struct Leave {
    pub(super) entry: Arc<Entry>,
    pub(super) creates: Creates,
    /// How long the entry can stay in the store if it does not leave.
    pub(super) ttl: Duration,
    /// No answer has told of the entry.
    pub(super) doubtful: bool,
}

impl Registry {
    pub(super) fn new() -> Self {
        Self {
            records: HashMap::new(),
            due: BTreeSet::new(),
            parked_until: BootTime::FAR_FUTURE,
            started: false,
            closed: false,
        }
    }

    pub(super) fn contains(&self, id: EntryId) -> bool {
        self.records.contains_key(&id)
    }

    /// Whether a record may be inserted: no new one once the registry is closed.
    pub(super) fn accepts(&self, id: EntryId, replaces: bool) -> bool {
        !self.closed && (!replaces || self.contains(id))
    }

    /// Accepts nothing more, and returns all waiters: the caller has to leave for them.
    pub(super) fn close(&mut self) -> Vec<Leave> {
        self.closed = true;
        let waits = |(id, record): (&EntryId, &Record)| {
            matches!(record.tracked, Tracked::Waiting { .. }).then_some(*id)
        };
        let waiting: Vec<_> = self.records.iter().filter_map(waits).collect();
        let taken = waiting.into_iter().filter_map(|id| self.remove(id));
        taken.map(Tracked::leave).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Inserts a record, and returns the one that it replaces.
    pub(super) fn insert(&mut self, id: EntryId, due: BootTime, tracked: Tracked) -> Option<Record> {
        let old = self.records.insert(id, Record { due, tracked, alarmed: false });
        if let Some(old) = &old {
            self.due.remove(&(old.due, id));
        }
        self.due.insert((due, id));
        old
    }

    pub(super) fn remove(&mut self, id: EntryId) -> Option<Tracked> {
        let record = self.records.remove(&id)?;
        self.due.remove(&(record.due, id));
        Some(record.tracked)
    }

    /// Changes when a record is due, if there is one.
    pub(super) fn reschedule(&mut self, id: EntryId, due: BootTime) -> bool {
        let Some(record) = self.records.get_mut(&id) else { return false };
        let old = std::mem::replace(&mut record.due, due);
        self.due.remove(&(old, id));
        self.due.insert((due, id));
        true
    }

    /// The lease of an entry that holds a lock.
    pub(super) fn held_lease(&self, id: EntryId) -> Option<&HeldLease> {
        match &self.records.get(&id)?.tracked {
            Tracked::Held(lease) => Some(lease),
            Tracked::Waiting { .. } => None,
        }
    }

    /// The lease for which an alarm came. That of a waiter is only remembered: the waiter may be granted the lock by an answer or a hint
    /// that is older than the alarm.
    pub(super) fn on_alarm(&mut self, id: EntryId) -> Option<HeldLease> {
        let record = self.records.get_mut(&id)?;
        match &record.tracked {
            Tracked::Held(lease) => Some(lease.clone()),
            Tracked::Waiting { .. } => {
                record.alarmed = true;
                None
            }
        }
    }

    pub(super) fn held_leases(&self) -> impl Iterator<Item = &HeldLease> {
        self.records.values().filter_map(|record| match &record.tracked {
            Tracked::Held(lease) => Some(lease),
            Tracked::Waiting { .. } => None,
        })
    }

    /// Has the task wake at `due` at the latest. True if it is parked for longer, and has to be notified.
    pub(super) fn park_until(&mut self, due: BootTime) -> bool {
        let earlier = due < self.parked_until;
        if earlier {
            self.parked_until = due;
        }
        earlier
    }

    /// The record that is due first, and when.
    pub(super) fn first_due(&self) -> Option<(BootTime, EntryId)> {
        self.due.first().copied()
    }

    /// The records that are due, and the renewals that are due so soon that they join the batch.
    pub(super) fn due_ids(&self, now: BootTime) -> Vec<EntryId> {
        let soon = self.due.range(..=(now + BATCH_WINDOW, EntryId::new(u128::MAX)));
        let goes = |&(due, id): &(BootTime, EntryId)| {
            let along = |lease: &HeldLease| lease.renews() && due.since(now) <= lease.hold.lease() / 30;
            (due <= now || self.held_lease(id).is_some_and(along)).then_some(id)
        };
        soon.filter_map(goes).collect()
    }

    /// Locks whose deadline has passed, and that are not over yet: those that ended first, and `most` at the most.
    pub(super) fn ended(&self, now: BootTime, most: usize) -> Vec<Hold> {
        let due = self.due.range(..=(now, EntryId::new(u128::MAX)));
        let holds = due.filter_map(|(_, id)| self.held_lease(*id)).map(|lease| &lease.hold);
        holds.filter(|hold| hold.deadline() <= now && !hold.is_over()).take(most).cloned().collect()
    }

    /// Sets when the record of a lock is due next, and returns its lease if that is to be renewed now. One whose deadline has passed stays
    /// due.
    pub(super) fn due_renewal(&mut self, id: EntryId, now: BootTime) -> Option<HeldLease> {
        let record = self.records.get_mut(&id)?;
        let Tracked::Held(lease) = &record.tracked else { return None };
        let deadline = lease.hold.deadline();
        if lease.hold.is_over() || deadline <= now {
            return None;
        }
        let renew = lease.renews();
        // The answer of the renewal sets the next due time; should its task be lost, this one holds.
        let in_flight = if renew { now + 2 * lease.try_limit() } else { BootTime::FAR_FUTURE };
        let old = std::mem::replace(&mut record.due, in_flight.min(deadline));
        self.due.remove(&(old, id));
        self.due.insert((record.due, id));
        renew.then(|| lease.clone())
    }

    /// Removes a due record whose lease or lock is over: leave for it, so that others need not wait for the store to notice.
    pub(super) fn due_leave(&mut self, id: EntryId) -> Option<Leave> {
        let over = match &self.records.get(&id)?.tracked {
            Tracked::Held(lease) => lease.hold.is_over(),
            Tracked::Waiting { .. } => true,
        };
        if over { self.remove(id).map(Tracked::leave) } else { None }
    }
}

impl Tracked {
    pub(super) fn leave(self) -> Leave {
        match self {
            Self::Held(HeldLease { hold, creates, .. }) => {
                Leave { entry: Arc::clone(hold.entry()), creates, ttl: hold.ttl(), doubtful: false }
            }
            Self::Waiting { entry, creates, doubtful } => Leave { ttl: entry.ttl, entry, creates, doubtful },
        }
    }
}
