//! [`Look`]: who is ahead, as one answer of etcd showed it.

use lock_core::{Claim, FencingToken, admission};

use crate::watch::Sight;

/// Who is ahead of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The store's revision.
    pub(crate) revision: i64,
    /// The nearest first, with their permits. Of those ahead of a reader, only writers.
    pub(crate) near: Vec<(Vec<u8>, Claim)>,
    /// There are more ahead than those.
    pub(crate) more: bool,
    /// How many are ahead, if that is known.
    pub(crate) ahead: Option<u64>,
    /// The label of the first.
    pub(crate) holder: Option<String>,
}

impl Look {
    /// Nobody is there.
    pub(crate) fn free(revision: i64) -> Self {
        Self { revision, near: Vec::new(), more: false, ahead: Some(0), holder: None }
    }

    /// Whether somebody with this claim is admitted.
    pub(crate) fn admits(&self, claim: Claim) -> bool {
        self.sum().is_some_and(|sum| admission::fits(sum, claim))
    }

    /// What a waiter makes of it.
    pub(crate) fn sight(&self, token: i64, claim: Claim, own: &[u8]) -> Sight {
        let nearest = self.near.iter().map(|(_, claim)| *claim);
        // Where even all that were seen leave room, the others are not seen: all of these, and the timer.
        let count = admission::blockers(claim, nearest).unwrap_or(self.near.len());
        let blockers = self.near.iter().take(count).map(|(key, claim)| (key.clone(), claim.permits()));
        Sight {
            revision: self.revision,
            token: token_of(token),
            claim,
            own: own.to_vec(),
            blockers: blockers.collect(),
            sum: self.sum(),
        }
    }

    /// The permits of all who count.
    fn sum(&self) -> Option<u64> {
        let sum = self.near.iter().map(|(_, claim)| u64::from(claim.permits())).sum();
        (!self.more).then_some(sum)
    }
}

/// A create revision as a token. Revisions are positive.
pub(crate) fn token_of(create_revision: i64) -> FencingToken {
    FencingToken::new(create_revision.unsigned_abs())
}
