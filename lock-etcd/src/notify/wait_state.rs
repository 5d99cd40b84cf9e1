//! [`WaitState`]: what one waiter knows of the entries ahead of it, and what an event changes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use lock_core::{FencingToken, Hint, admission::fits};
use tokio::sync::Notify;

use crate::queue::Snapshot;

/// Entries by their keys: the revision of a look, and that in which the entry was created, if it is there.
pub(super) type Presence = HashMap<Vec<u8>, (i64, Option<i64>)>;

/// Whether every departure since the look is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coverage {
    /// Some watches may have begun after the look.
    Missing,
    /// There is another stream, and a [look](super::catch_up::CatchUp) is finding out who left in between.
    Pending,
    /// All watches were there before the look.
    Complete,
}

/// Those ahead of a waiter leave room for it. It is admitted if its own entry stands at this revision or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GrantCondition {
    pub(super) own: Vec<u8>,
    pub(super) token: FencingToken,
    pub(super) revision: i64,
}

/// A waiter between two looks.
///
/// That those ahead leave room is sent as [`Hint::Admitted`], and is not certain yet: the own entry may have been deleted in the same
/// transaction, or before. See [`ConfirmedHints`](super::confirmed_hints::ConfirmedHints).
#[derive(Debug)]
pub(super) struct WaitState {
    /// How many subscriptions there are. With the last one the wait is over.
    pub(super) listeners: usize,
    pub(super) snapshot: Snapshot,
    coverage: Coverage,
    /// A watch was refused or lost: there will be no events for some of the keys.
    pub(super) broken: bool,
    /// Its own entry was deleted. It is not granted anything any more (PR18).
    own_deleted: bool,
    /// Those ahead who have not left.
    remaining: BTreeMap<Vec<u8>, u32>,
    /// Deletes that were heard of before the coverage was complete, with their revisions.
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

    /// Another look. Until it is known to be good, no event changes anything.
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

    /// Whether nobody has left, as far as was heard.
    pub(super) fn is_unchanged(&self) -> bool {
        let seen = self.snapshot.blockers.len() + usize::from(self.snapshot.lookahead.is_some());
        !self.own_deleted && self.remaining.len() == seen
    }

    /// What has to be true for it to be admitted, as far as was heard.
    pub(super) fn grant_condition(&self) -> Option<GrantCondition> {
        let Snapshot { own, token, .. } = &self.snapshot;
        (!self.own_deleted).then(|| GrantCondition {
            own: own.clone(),
            token: *token,
            revision: self.last_departure,
        })
    }

    /// Whether it cannot be its turn yet, because entries that it watches are there and keep it out.
    pub(super) fn is_kept_out(&self) -> bool {
        !self.own_deleted && !fits(self.left(), self.snapshot.claim)
    }

    /// Everything is watched on another stream. Until it is known who left in between, no event changes anything.
    pub(super) fn begin_catch_up(&mut self) {
        self.coverage = Coverage::Pending;
    }

    /// Whether it is not known yet who left while nothing was watched.
    pub(super) fn is_catching_up(&self) -> bool {
        self.coverage == Coverage::Pending
    }

    /// It will not be known who left while nothing was watched. The waiter has to look.
    pub(super) fn require_look(&mut self) {
        self.coverage = Coverage::Missing;
    }

    /// Who was found standing, when everything was watched again.
    pub(super) fn finish_catch_up(&mut self, presence: &Presence) -> Vec<Hint> {
        self.broken = false;
        let mut hints = self.complete();
        let place = i64::try_from(self.snapshot.token.get()).unwrap_or(i64::MAX);
        for key in self.snapshot.watched() {
            let Some((revision, created)) = presence.get(&key) else { continue };
            // A key that was deleted may belong to a later entry by now.
            if created.is_none_or(|created| created > place) {
                hints.extend(self.apply(&key, *revision));
            }
        }
        hints
    }

    /// All watches were there before the look: from here on each event counts, and those that came meanwhile do.
    pub(super) fn arm(&mut self) -> Vec<Hint> {
        // Those watches have ended since, where others are pending.
        if self.is_catching_up() { Vec::new() } else { self.complete() }
    }

    fn complete(&mut self) -> Vec<Hint> {
        self.coverage = Coverage::Complete;
        let deleted = std::mem::take(&mut self.early_deletes);
        deleted.into_iter().filter_map(|(key, revision)| self.apply(&key, revision)).collect()
    }

    /// A key was deleted.
    pub(super) fn on_delete(&mut self, key: &[u8], revision: i64) -> Option<Hint> {
        if self.coverage == Coverage::Complete {
            self.apply(key, revision)
        } else {
            self.early_deletes.insert(key.to_vec(), revision);
            None
        }
    }

    fn apply(&mut self, key: &[u8], revision: i64) -> Option<Hint> {
        // The look was later, and so knows (PR18).
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

    /// The permits of those ahead that are watched and have not left.
    fn left(&self) -> u64 {
        self.remaining.values().map(|permits| u64::from(*permits)).sum()
    }
}

#[cfg(test)]
mod tests;
