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
    /// The nearest entries ahead that keep the waiter out while all of them exist (PR15), with their permits.
    pub(crate) blockers: Vec<(Vec<u8>, u32)>,
    /// An entry further ahead: when it leaves, another look shows all that remain.
    pub(crate) lookahead: Option<Vec<u8>>,
    /// The permits of all entries ahead that count, if all were seen (PR16).
    pub(crate) sum: Option<u64>,
}

impl Snapshot {
    /// The keys that have to be watched for the waiter.
    pub(crate) fn watched(&self) -> Vec<Vec<u8>> {
        let blockers = self.blockers.iter().map(|(key, _)| key);
        blockers.chain(&self.lookahead).chain([&self.own]).cloned().collect()
    }

    /// The watched entries ahead, with their permits. The permits of the lookahead do not matter.
    pub(crate) fn watched_ahead(&self) -> BTreeMap<Vec<u8>, u32> {
        let lookahead = self.lookahead.iter().map(|key| (key.clone(), 0));
        self.blockers.iter().cloned().chain(lookahead).collect()
    }
}
