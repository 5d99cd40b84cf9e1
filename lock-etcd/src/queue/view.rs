//! [`QueueView`]: the entries ahead, as one answer of etcd showed them.

use lock_core::{Claim, admission};

use super::{presence::token_of, snapshot::Snapshot};

/// Up to this many entries ahead are all watched, although fewer would be enough to know when to look (PR15): so a grant needs
/// no look, at the price of some more watches, which the waiters of one process share.
pub(super) const MAX_WATCHED_AHEAD: u8 = 8;

/// The entries ahead of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueView {
    /// The store's revision.
    pub(crate) revision: i64,
    /// The nearest entries ahead, nearest first, with their claims. For a reader, only writers.
    pub(crate) near: Vec<(Vec<u8>, Claim)>,
    /// The create revision of the last of these.
    pub(crate) furthest: i64,
    /// Whether there are more entries ahead than these.
    pub(crate) more: bool,
    /// The number of entries ahead, if that is known.
    pub(crate) ahead: Option<u64>,
    /// The number of entries in the queue, ahead and behind, which determines how long etcd takes to look at it.
    pub(crate) length: u64,
    /// The label of the first entry.
    pub(crate) holder: Option<String>,
}

impl QueueView {
    /// The view of an empty queue.
    pub(crate) fn free(revision: i64) -> Self {
        let near = Vec::new();
        Self { revision, near, furthest: 0, more: false, ahead: Some(0), length: 0, holder: None }
    }

    /// Whether an entry with this claim is admitted.
    pub(crate) fn admits(&self, claim: Claim) -> bool {
        self.sum().is_some_and(|sum| admission::fits(sum, claim))
    }

    /// Whether the entries that were not seen decide, because those that were seen leave room. Never for an exclusive claim.
    pub(crate) fn leaves_open(&self, claim: Claim) -> bool {
        self.more && admission::fits(self.seen(), claim)
    }

    /// The snapshot of this view for a waiter.
    pub(crate) fn snapshot(&self, token: i64, claim: Claim, own: &[u8]) -> Snapshot {
        let nearest = self.near.iter().map(|(_, claim)| *claim);
        // If even all seen entries together leave room, watch all of them, and rely on the timer for the others.
        let mut count = admission::blockers(claim, nearest).unwrap_or(self.near.len());
        let mut lookahead = None;
        let watched = usize::from(MAX_WATCHED_AHEAD);
        if self.near.len() <= watched && !self.more {
            // Few enough to watch all: then the last delete is the grant, without another look.
            count = self.near.len();
        } else if count < watched {
            // When this entry leaves, there are few enough.
            lookahead = self.near.get(watched - 1).map(|(key, _)| key.clone());
        }
        let blockers = self.near.iter().take(count).map(|(key, claim)| (key.clone(), claim.permits()));
        Snapshot {
            lookahead,
            revision: self.revision,
            token: token_of(token),
            claim,
            own: own.to_vec(),
            blockers: blockers.collect(),
            sum: self.sum(),
        }
    }

    /// The permits of all entries that count. `None` if not all were seen.
    fn sum(&self) -> Option<u64> {
        (!self.more).then(|| self.seen())
    }

    /// The permits of the entries that were seen.
    fn seen(&self) -> u64 {
        self.near.iter().map(|(_, claim)| u64::from(claim.permits())).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn look(claims: &[Claim], more: bool) -> QueueView {
        let near =
            claims.iter().enumerate().map(|(i, claim)| (vec![u8::try_from(i).unwrap()], *claim)).collect();
        QueueView { revision: 9, near, furthest: 1, more, ahead: None, length: 0, holder: None }
    }

    fn keys(snapshot: &Snapshot) -> Vec<u8> {
        snapshot.blockers.iter().map(|(key, _)| key[0]).collect()
    }

    #[test]
    fn few_ahead_are_all_watched_and_of_many_the_nearest_and_a_lookahead() {
        let mutex = Claim::mutex();
        let snapshot = look(&[mutex; 8], false).snapshot(5, mutex, b"own");
        assert_eq!((keys(&snapshot), snapshot.lookahead, snapshot.sum), ((0..8).collect(), None, Some(8)));
        let snapshot = look(&[mutex; 8], true).snapshot(5, mutex, b"own");
        assert_eq!((keys(&snapshot), snapshot.lookahead, snapshot.sum), (vec![0], Some(vec![7]), None));
    }

    #[test]
    fn a_look_that_did_not_show_all_admits_nobody() {
        let one = Claim::semaphore(1, 100).unwrap();
        assert!(look(&[one; 8], false).admits(one));
        assert!(!look(&[one; 8], true).admits(one));
        assert!(look(&[], false).admits(Claim::writer()));
        assert!(!look(&[Claim::writer()], false).admits(Claim::reader()));
    }

    #[test]
    fn entries_not_seen_decide_only_where_those_seen_leave_room() {
        let one = Claim::semaphore(1, 8).unwrap();
        assert!(look(&[one; 7], true).leaves_open(one));
        assert!(!look(&[one; 8], true).leaves_open(one), "it is not admitted, whatever else is there");
        assert!(!look(&[one; 7], false).leaves_open(one), "nobody else is there");
        assert!(!look(&[Claim::mutex(); 8], true).leaves_open(Claim::mutex()));
    }

    proptest! {
        // PR15.
        #[test]
        fn while_all_that_are_watched_live_nobody_is_admitted(
            portions in prop::collection::vec(1..5_u32, 1..30), mine in 1..=8_u32, more: bool,
        ) {
            let claim = |permits| Claim::semaphore(permits, 8).unwrap();
            let claims: Vec<_> = portions.iter().map(|permits| claim(*permits)).collect();
            let look = look(&claims, more);
            let snapshot = look.snapshot(5, claim(mine), b"own");
            let watched = snapshot.blockers.iter().map(|(_, permits)| u64::from(*permits)).sum();
            let all_of_them = snapshot.blockers.len() == claims.len();
            prop_assert!(all_of_them || !admission::fits(watched, claim(mine)));
        }
    }
}
