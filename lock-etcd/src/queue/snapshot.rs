//! [`Snapshot`]: what a look at the queue showed a waiter.

use std::collections::BTreeMap;

use lock_core::{Claim, FencingToken};

/// What a look at the queue showed a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The store's revision at the look.
    pub(crate) revision: i64,
    pub(crate) token: FencingToken,
    pub(crate) claim: Claim,
    pub(crate) own: Vec<u8>,
    /// The nearest ahead who keep it out while all of them live (PR15), with their permits.
    pub(crate) blockers: Vec<(Vec<u8>, u32)>,
    /// One further ahead: when it goes, another look shows all who are left.
    pub(crate) lookahead: Option<Vec<u8>>,
    /// The permits of everybody ahead who counts, if everybody was seen (PR16).
    pub(crate) sum: Option<u64>,
}

impl Snapshot {
    /// The keys that have to be watched for it.
    pub(crate) fn watched(&self) -> Vec<Vec<u8>> {
        let blockers = self.blockers.iter().map(|(key, _)| key);
        blockers.chain(&self.lookahead).chain([&self.own]).cloned().collect()
    }

    /// Those ahead, with their permits. That of the lookahead does not matter.
    pub(crate) fn watched_ahead(&self) -> BTreeMap<Vec<u8>, u32> {
        let lookahead = self.lookahead.iter().map(|key| (key.clone(), 0));
        self.blockers.iter().cloned().chain(lookahead).collect()
    }
}
