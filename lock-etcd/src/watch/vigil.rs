//! [`Vigil`]: what one waiter knows of those ahead of it, and what an event makes of that.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lock_core::{Claim, FencingToken, Hint, admission::fits};
use tokio::sync::Notify;

/// What a look at the queue showed a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// The store's revision at the look.
    pub(crate) revision: i64,
    pub(crate) token: FencingToken,
    pub(crate) claim: Claim,
    pub(crate) own: Vec<u8>,
    /// The nearest ahead who keep it out while all of them live (PR15), with their permits.
    pub(crate) blockers: Vec<(Vec<u8>, u32)>,
    /// One further ahead: when it goes, another look shows all who are left.
    pub(crate) scout: Option<Vec<u8>>,
    /// The permits of everybody ahead who counts, if everybody was seen (PR16).
    pub(crate) sum: Option<u64>,
}

impl Sight {
    /// The keys that have to be watched for it.
    pub(crate) fn watched(&self) -> Vec<Vec<u8>> {
        let blockers = self.blockers.iter().map(|(key, _)| key);
        blockers.chain(&self.scout).chain([&self.own]).cloned().collect()
    }

    /// Those ahead, with their permits. Those of the scout do not matter.
    fn attended(&self) -> BTreeMap<Vec<u8>, u32> {
        let scout = self.scout.iter().map(|key| (key.clone(), 0));
        self.blockers.iter().cloned().chain(scout).collect()
    }
}

/// A waiter between two looks.
#[derive(Debug)]
pub(super) struct Vigil {
    /// How many streams of hints there are for it. Without any it is over.
    pub(super) listeners: usize,
    pub(super) sight: Sight,
    /// Whether the sight is good: every watch was there before it.
    armed: bool,
    /// A watch was refused or lost: there will be no events for some of the keys.
    pub(super) broken: bool,
    /// Its own entry was deleted. It is not granted anything any more (PR18).
    dead: bool,
    /// Those ahead who have not left.
    remaining: BTreeMap<Vec<u8>, u32>,
    /// Deletes that were heard of, with their revisions.
    deleted: BTreeMap<Vec<u8>, i64>,
    pub(super) notify: Arc<Notify>,
}

impl Vigil {
    pub(super) fn new(sight: Sight) -> Self {
        let remaining = sight.attended();
        Self {
            listeners: 0,
            sight,
            armed: false,
            broken: false,
            dead: false,
            remaining,
            deleted: BTreeMap::new(),
            notify: Arc::new(Notify::new()),
        }
    }

    /// Another look. Until it is known to be good, no event changes anything.
    pub(super) fn look(&mut self, sight: Sight) {
        self.remaining = sight.attended();
        self.deleted.retain(|_, revision| *revision > sight.revision);
        self.sight = sight;
        self.armed = false;
        self.broken = false;
    }

    /// The keys that have to be watched for the look.
    pub(super) fn keys(&self) -> BTreeSet<Vec<u8>> {
        self.sight.watched().into_iter().collect()
    }

    /// Whether everything is watched, and nobody has left.
    pub(super) fn is_as_seen(&self) -> bool {
        let seen = self.sight.blockers.len() + usize::from(self.sight.scout.is_some());
        self.armed && !self.broken && !self.dead && self.remaining.len() == seen
    }

    /// All watches were there before the look: from here on each event counts, and those that came meanwhile do.
    pub(super) fn arm(&mut self) -> Vec<Hint> {
        self.armed = true;
        let deleted = std::mem::take(&mut self.deleted);
        deleted.into_iter().filter_map(|(key, revision)| self.apply(&key, revision)).collect()
    }

    /// A key was deleted.
    pub(super) fn delete(&mut self, key: &[u8], revision: i64) -> Option<Hint> {
        if self.armed {
            self.apply(key, revision)
        } else {
            self.deleted.insert(key.to_vec(), revision);
            None
        }
    }

    fn apply(&mut self, key: &[u8], revision: i64) -> Option<Hint> {
        // The look was later, and so knows (PR18).
        if revision <= self.sight.revision {
            return None;
        }
        if *key == *self.sight.own {
            self.dead = true;
            return Some(Hint::Changed);
        }
        let scout = self.sight.scout.as_deref() == Some(key);
        let permits = self.remaining.remove(key).map_or(0, u64::from);
        if let Some(sum) = &mut self.sight.sum {
            *sum = sum.saturating_sub(permits);
        }
        if self.dead || (permits == 0 && !scout) {
            return None;
        }
        let Sight { claim, token, sum, .. } = self.sight;
        if sum.is_some_and(|sum| fits(sum, claim)) {
            return Some(Hint::Admitted { token });
        }
        let left = self.remaining.values().map(|permits| u64::from(*permits)).sum();
        (scout || fits(left, claim)).then_some(Hint::Changed)
    }
}

#[cfg(test)]
mod tests;
