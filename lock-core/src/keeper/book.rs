//! [`Book`]: the leases of one client, by when each is due.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use super::Tenure;
use crate::{BootTime, Creates, Entry, EntryId, hold::Loss};

/// Renewals that are due within this time of another may go along with it, if it is short against their ttl.
const COMPANY: Duration = Duration::from_secs(1);

/// What is kept, and when something has to be done for it. Nothing here runs the code of others: whoever has the book locked gets
/// what is to be said, and says it later.
#[derive(Debug)]
pub(super) struct Book {
    rows: HashMap<EntryId, Row>,
    due: BTreeSet<(BootTime, EntryId)>,
    /// When the task will look next without being woken.
    pub(super) parked_until: BootTime,
    pub(super) started: bool,
    closed: bool,
}

#[derive(Debug)]
struct Row {
    due: BootTime,
    kept: Kept,
}

#[derive(Debug)]
pub(super) enum Kept {
    Tenure(Tenure),
    /// A waiter, whose future should have entered again before its place was lost.
    Place {
        entry: Arc<Entry>,
        creates: Creates,
    },
}

/// What is to be done for one row that is due.
pub(super) enum Work {
    Renew(Tenure),
    /// The lease ended, or the hold did: leave, so that others need not wait for the store to notice.
    Leave(Leave),
}

/// An entry that has to leave.
pub(super) struct Leave {
    pub(super) entry: Arc<Entry>,
    pub(super) creates: Creates,
    /// How long the entry can live on if that fails.
    pub(super) ttl: Duration,
    /// What is to be announced.
    pub(super) loss: Option<Loss>,
}

impl Book {
    pub(super) fn new() -> Self {
        Self {
            rows: HashMap::new(),
            due: BTreeSet::new(),
            parked_until: BootTime::FAR_FUTURE,
            started: false,
            closed: false,
        }
    }

    pub(super) fn has(&self, id: EntryId) -> bool {
        self.rows.contains_key(&id)
    }

    /// Whether a row may be put: no new one once it is closed.
    pub(super) fn is_open_to(&self, id: EntryId, replaces: bool) -> bool {
        !self.closed && (!replaces || self.has(id))
    }

    /// Takes nothing more, and gives all who wait: whoever takes them has to leave for them.
    pub(super) fn close(&mut self) -> Vec<Leave> {
        self.closed = true;
        let waits = |(id, row): (&EntryId, &Row)| matches!(row.kept, Kept::Place { .. }).then_some(*id);
        let waiting: Vec<_> = self.rows.iter().filter_map(waits).collect();
        let taken = waiting.into_iter().filter_map(|id| self.take(id));
        taken.map(|kept| kept.leave(None)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Puts a row, and gives the one that was in its place.
    pub(super) fn put(&mut self, id: EntryId, due: BootTime, kept: Kept) -> Option<Kept> {
        let old = self.rows.insert(id, Row { due, kept });
        if let Some(old) = &old {
            self.due.remove(&(old.due, id));
        }
        self.due.insert((due, id));
        old.map(|old| old.kept)
    }

    pub(super) fn take(&mut self, id: EntryId) -> Option<Kept> {
        let row = self.rows.remove(&id)?;
        self.due.remove(&(row.due, id));
        Some(row.kept)
    }

    /// Changes when a row is due, if it is there.
    pub(super) fn move_due(&mut self, id: EntryId, due: BootTime) -> bool {
        let Some(row) = self.rows.get_mut(&id) else { return false };
        let old = std::mem::replace(&mut row.due, due);
        self.due.remove(&(old, id));
        self.due.insert((due, id));
        true
    }

    /// The lock that an entry holds.
    pub(super) fn tenure(&self, id: EntryId) -> Option<&Tenure> {
        match &self.rows.get(&id)?.kept {
            Kept::Tenure(tenure) => Some(tenure),
            Kept::Place { .. } => None,
        }
    }

    pub(super) fn tenures(&self) -> impl Iterator<Item = &Tenure> {
        self.rows.values().filter_map(|row| match &row.kept {
            Kept::Tenure(tenure) => Some(tenure),
            Kept::Place { .. } => None,
        })
    }

    /// What is due first, and when.
    pub(super) fn first_due(&self) -> Option<(BootTime, EntryId)> {
        self.due.first().copied()
    }

    /// What is due, and those renewals that are due so soon that they can go along.
    pub(super) fn due_ids(&self, now: BootTime) -> Vec<EntryId> {
        let soon = self.due.range(..=(now + COMPANY, EntryId::new(u128::MAX)));
        let goes = |&(due, id): &(BootTime, EntryId)| {
            let along = |tenure: &Tenure| tenure.renews() && due.since(now) <= tenure.hold.lease() / 30;
            (due <= now || self.tenure(id).is_some_and(along)).then_some(id)
        };
        soon.filter_map(goes).collect()
    }

    /// What one due row needs. A tenure that goes on is put back with its next due time.
    pub(super) fn work(&mut self, id: EntryId, now: BootTime) -> Option<Work> {
        let row = self.rows.get_mut(&id)?;
        self.due.remove(&(row.due, id));
        let loss = match &row.kept {
            Kept::Tenure(tenure) => {
                let (held, loss) = tenure.hold.look();
                if held.is_held() {
                    let renew = tenure.renews();
                    // The answer of the renewal sets the next one; should its task be lost, this does.
                    let in_flight = if renew { now + 2 * tenure.try_limit() } else { BootTime::FAR_FUTURE };
                    row.due = in_flight.min(tenure.hold.deadline());
                    self.due.insert((row.due, id));
                    return renew.then(|| Work::Renew(tenure.clone()));
                }
                loss
            }
            Kept::Place { .. } => None,
        };
        Some(Work::Leave(self.rows.remove(&id)?.kept.leave(loss)))
    }
}

impl Kept {
    pub(super) fn leave(self, loss: Option<Loss>) -> Leave {
        match self {
            Self::Tenure(Tenure { hold, creates, .. }) => {
                Leave { entry: Arc::clone(hold.entry()), creates, ttl: hold.ttl(), loss }
            }
            Self::Place { entry, creates } => Leave { ttl: entry.ttl, entry, creates, loss },
        }
    }
}
