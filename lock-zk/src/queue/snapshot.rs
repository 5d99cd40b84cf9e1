//! [`Snapshot`]: what a waiter has seen of those ahead of it.

use lock_core::{Claim, EntryId, FencingToken, Holder};

use super::{ahead_count::AheadCount, view::EntriesAhead};

/// What a waiter has seen of those ahead of it, in a look at the whole queue. While all whom it watches are there, it need not look at
/// the others again.
///
/// ### To ensure correctness
/// It is that of one life of an entry, and holds for as long: nobody comes to stand ahead of it later (PR16). So the sum of those ahead is
/// never less than what is there, however old this is.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Of the life that it is for.
    pub(crate) token: FencingToken,
    /// As of the look: nobody has left.
    pub(crate) ahead_count: AheadCount,
    /// Whose nodes are watched, in the order of the count.
    pub(crate) watched: Vec<EntryId>,
    /// How many entries there were ahead, for people: some may have left since.
    pub(crate) entries_ahead: u64,
    /// The node of the one that holds the lock, or one of those.
    pub(crate) first: String,
    /// Who that is, if that is known.
    pub(crate) holder: Option<Holder>,
    /// It was looked at just now.
    pub(crate) is_fresh: bool,
}

impl Snapshot {
    pub(crate) fn new(token: FencingToken, ahead: &EntriesAhead<'_>, claim: Claim) -> Self {
        Self {
            token,
            ahead_count: AheadCount::new(ahead, claim),
            watched: ahead.watched().map(|node| node.entry).collect(),
            entries_ahead: ahead.nodes().len() as u64,
            first: ahead.nodes().first().map(|first| first.name.clone()).unwrap_or_default(),
            holder: None,
            is_fresh: true,
        }
    }

    /// Which of those that are watched is the first, if it is one of them.
    pub(crate) fn position_of_first(&self) -> Option<usize> {
        self.ahead_count.watched_nodes().position(|node| node == self.first)
    }
}
