//! [`WaitState`]: what one waiter knows about the entries ahead of it, and how events change that.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use lock_core::{FencingToken, Hint, admission::fits};
use tokio::sync::Notify;

use crate::queue::Snapshot;

/// For each key the revision of a look, and the create revision of the entry, if it exists.
pub(super) type Presence = HashMap<Vec<u8>, (i64, Option<i64>)>;

/// Whether all departures since the look are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coverage {
    /// Some watches may have begun after the look.
    Missing,
    /// There is a new stream, and a [look](super::catch_up::CatchUp) is finding out which entries left in between.
    Pending,
    /// All watches existed before the look.
    Complete,
}

/// The entries ahead of a waiter leave room for it. It is admitted if its own entry exists at this revision or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrantCondition {
    pub(super) own: Vec<u8>,
    pub(super) token: FencingToken,
    pub(super) revision: i64,
}

/// A waiter between two looks.
///
/// When the entries ahead leave room, this sends [`Hint::Admitted`], which is not certain yet: the own entry may have been deleted in the
/// same transaction, or before. See [`ConfirmedHints`](super::confirmed_hints::ConfirmedHints).
#[derive(Debug)]
pub(super) struct WaitState {
    /// The number of subscriptions. When the last one is dropped, the wait is over.
    pub(super) listeners: usize,
    pub(super) snapshot: Snapshot,
    coverage: Coverage,
    /// Whether a watch was refused or lost, so that some of the keys have no events.
    pub(super) broken: bool,
    /// Whether the waiter's own entry was deleted. It gets no grant any more (PR18).
    own_deleted: bool,
    /// The watched entries ahead that have not left, with their permits.
    remaining: BTreeMap<Vec<u8>, u32>,
    /// Deletes that were reported before the coverage was complete, with their revisions.
    early_deletes: BTreeMap<Vec<u8>, i64>,
    /// The revision of the last delete that counted.
    last_departure: i64,
    pub(super) notify: Arc<Notify>,
}

impl WaitState {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        let remaining = snapshot.watched_ahead();
        Self {
            listeners: 0,
            snapshot,
            coverage: Coverage::Missing,
            broken: false,
            own_deleted: false,
            remaining,
            early_deletes: BTreeMap::new(),
            last_departure: 0,
            notify: Arc::new(Notify::new()),
        }
    }

    /// Sets the snapshot of another look. Until the waiter is armed again, events are only recorded.
    pub(super) fn update(&mut self, snapshot: Snapshot) {
        self.remaining = snapshot.watched_ahead();
        self.early_deletes.retain(|_, revision| *revision > snapshot.revision);
        self.snapshot = snapshot;
        self.coverage = Coverage::Missing;
        self.broken = false;
    }

    /// The keys that have to be watched for the look.
    pub(super) fn keys(&self) -> BTreeSet<Vec<u8>> {
        self.snapshot.watched().into_iter().collect()
    }

    /// Whether everything is watched.
    pub(super) fn is_watched(&self) -> bool {
        self.coverage == Coverage::Complete && !self.broken
    }

    /// Whether no watched entry has left, as far as events have shown.
    pub(super) fn is_unchanged(&self) -> bool {
        let seen = self.snapshot.blockers.len() + usize::from(self.snapshot.lookahead.is_some());
        !self.own_deleted && self.remaining.len() == seen
    }

    /// The condition under which the waiter is admitted, as far as events have shown.
    pub(super) fn grant_condition(&self) -> Option<GrantCondition> {
        let Snapshot { own, token, .. } = &self.snapshot;
        (!self.own_deleted).then(|| GrantCondition {
            own: own.clone(),
            token: *token,
            revision: self.last_departure,
        })
    }

    /// Whether the waiter cannot be admitted yet, because the entries that it watches leave no room.
    pub(super) fn is_kept_out(&self) -> bool {
        !self.own_deleted && !fits(self.left(), self.snapshot.claim)
    }

    /// Begins the catch-up: everything is watched on a new stream. Until the departures in between are known, events are only recorded.
    pub(super) fn begin_catch_up(&mut self) {
        self.coverage = Coverage::Pending;
    }

    /// Whether a catch-up is still finding out which entries left while nothing was watched.
    pub(super) fn is_catching_up(&self) -> bool {
        self.coverage == Coverage::Pending
    }

    /// The departures while nothing was watched will stay unknown. The waiter has to look.
    pub(super) fn require_look(&mut self) {
        self.coverage = Coverage::Missing;
    }

    /// Ends the catch-up with the entries that existed when everything was watched again.
    pub(super) fn finish_catch_up(&mut self, presence: &Presence) -> Vec<Hint> {
        self.broken = false;
        let mut hints = self.complete();
        let place = i64::try_from(self.snapshot.token.get()).unwrap_or(i64::MAX);
        for key in self.snapshot.watched() {
            let Some((revision, created)) = presence.get(&key) else { continue };
            // A deleted key may belong to a later entry by now.
            if created.is_none_or(|created| created > place) {
                hints.extend(self.apply(&key, *revision));
            }
        }
        hints
    }

    /// All watches existed before the look: from here on each event counts, and so do those that were recorded.
    pub(super) fn arm(&mut self) -> Vec<Hint> {
        // If a catch-up is pending, those watches have ended in the meantime.
        if self.is_catching_up() { Vec::new() } else { self.complete() }
    }

    fn complete(&mut self) -> Vec<Hint> {
        self.coverage = Coverage::Complete;
        let deleted = std::mem::take(&mut self.early_deletes);
        deleted.into_iter().filter_map(|(key, revision)| self.apply(&key, revision)).collect()
    }

    /// Handles the delete of a key.
    pub(super) fn on_delete(&mut self, key: &[u8], revision: i64) -> Option<Hint> {
        if self.coverage == Coverage::Complete {
            self.apply(key, revision)
        } else {
            self.early_deletes.insert(key.to_vec(), revision);
            None
        }
    }

    fn apply(&mut self, key: &[u8], revision: i64) -> Option<Hint> {
        // The look was later, so it has seen this delete (PR18).
        if revision <= self.snapshot.revision {
            return None;
        }
        if *key == *self.snapshot.own {
            self.own_deleted = true;
            return Some(Hint::Changed);
        }
        self.last_departure = self.last_departure.max(revision);
        let lookahead = self.snapshot.lookahead.as_deref() == Some(key);
        let permits = self.remaining.remove(key).map_or(0, u64::from);
        if let Some(sum) = &mut self.snapshot.sum {
            *sum = sum.saturating_sub(permits);
        }
        if self.own_deleted || (permits == 0 && !lookahead) {
            return None;
        }
        let Snapshot { claim, token, sum, .. } = self.snapshot;
        if sum.is_some_and(|sum| fits(sum, claim)) {
            return Some(Hint::Admitted { token });
        }
        (lookahead || fits(self.left(), claim)).then_some(Hint::Changed)
    }

    /// The permits of the watched entries ahead that have not left.
    fn left(&self) -> u64 {
        self.remaining.values().map(|permits| u64::from(*permits)).sum()
    }
}

#[cfg(test)]
mod tests;
