//! [`Vigil`]: what one waiter knows of those ahead of it, and what an event makes of that.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lock_core::{Claim, FencingToken, Hint, admission::fits};
use tokio::sync::Notify;

use super::catch_up::Stood;

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

/// Whether every departure since the look is heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// Some watches may have begun after the look.
    Missing,
    /// It is being [looked](super::catch_up::CatchUp) on another stream who left in between.
    Pending,
    /// All watches were there before the look.
    Complete,
}

/// Those ahead of a waiter leave room for it. It is admitted if its own entry stands at this revision or later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(super) own: Vec<u8>,
    pub(super) token: FencingToken,
    pub(super) revision: i64,
}

/// A waiter between two looks.
///
/// That those ahead leave room is told as [`Hint::Admitted`], and is not certain yet: the own entry may have been deleted in the same
/// transaction, or before. See [`Confirmed`](super::Confirmed).
#[derive(Debug)]
pub(super) struct Vigil {
    /// How many streams of hints there are for it. Without any it is over.
    pub(super) listeners: usize,
    pub(super) sight: Sight,
    proof: Proof,
    /// A watch was refused or lost: there will be no events for some of the keys.
    pub(super) broken: bool,
    /// Its own entry was deleted. It is not granted anything any more (PR18).
    dead: bool,
    /// Those ahead who have not left.
    remaining: BTreeMap<Vec<u8>, u32>,
    /// Deletes that were heard of, with their revisions.
    deleted: BTreeMap<Vec<u8>, i64>,
    /// The revision of the last delete that counted.
    left: i64,
    pub(super) notify: Arc<Notify>,
}

impl Vigil {
    pub(super) fn new(sight: Sight) -> Self {
        let remaining = sight.attended();
        Self {
            listeners: 0,
            sight,
            proof: Proof::Missing,
            broken: false,
            dead: false,
            remaining,
            deleted: BTreeMap::new(),
            left: 0,
            notify: Arc::new(Notify::new()),
        }
    }

    /// Another look. Until it is known to be good, no event changes anything.
    pub(super) fn look(&mut self, sight: Sight) {
        self.remaining = sight.attended();
        self.deleted.retain(|_, revision| *revision > sight.revision);
        self.sight = sight;
        self.proof = Proof::Missing;
        self.broken = false;
    }

    /// The keys that have to be watched for the look.
    pub(super) fn keys(&self) -> BTreeSet<Vec<u8>> {
        self.sight.watched().into_iter().collect()
    }

    /// Whether everything is watched.
    pub(super) fn is_watched(&self) -> bool {
        self.proof == Proof::Complete && !self.broken
    }

    /// Whether nobody has left, as far as was heard.
    pub(super) fn is_as_seen(&self) -> bool {
        let seen = self.sight.blockers.len() + usize::from(self.sight.scout.is_some());
        !self.dead && self.remaining.len() == seen
    }

    /// What has to be true for it to be admitted, as far as was heard.
    pub(super) fn room(&self) -> Option<Room> {
        let Sight { own, token, .. } = &self.sight;
        (!self.dead).then(|| Room { own: own.clone(), token: *token, revision: self.left })
    }

    /// Everything is watched on another stream. Until it is known who left in between, no event changes anything.
    pub(super) fn resume(&mut self) {
        self.proof = Proof::Pending;
    }

    /// Whether it is not known yet who left while nothing was watched.
    pub(super) fn is_resuming(&self) -> bool {
        self.proof == Proof::Pending
    }

    /// It will not be known who left while nothing was watched. The waiter has to look.
    pub(super) fn give_up(&mut self) {
        self.proof = Proof::Missing;
    }

    /// Who was found standing, when everything was watched again.
    pub(super) fn resumed(&mut self, stood: &Stood) -> Vec<Hint> {
        self.broken = false;
        let mut hints = self.complete();
        let place = i64::try_from(self.sight.token.get()).unwrap_or(i64::MAX);
        for key in self.sight.watched() {
            let Some((revision, created)) = stood.get(&key) else { continue };
            // A key that was deleted may be somebody else's by now, who came later.
            if created.is_none_or(|created| created > place) {
                hints.extend(self.apply(&key, *revision));
            }
        }
        hints
    }

    /// All watches were there before the look: from here on each event counts, and those that came meanwhile do.
    pub(super) fn arm(&mut self) -> Vec<Hint> {
        // Those watches have ended since, where others are pending.
        if self.is_resuming() { Vec::new() } else { self.complete() }
    }

    fn complete(&mut self) -> Vec<Hint> {
        self.proof = Proof::Complete;
        let deleted = std::mem::take(&mut self.deleted);
        deleted.into_iter().filter_map(|(key, revision)| self.apply(&key, revision)).collect()
    }

    /// A key was deleted.
    pub(super) fn delete(&mut self, key: &[u8], revision: i64) -> Option<Hint> {
        if self.proof == Proof::Complete {
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
        self.left = self.left.max(revision);
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
