//! [`Snapshot`]: what a waiter has seen of the entries ahead of it.

use lock_core::{Claim, EntryId, FencingToken, Holder};

use super::{ahead_count::AheadCount, view::EntriesAhead};

/// What a waiter has seen of the entries ahead of it, in a look at the whole queue. While all entries that it watches are there, it need
/// not look at the others again.
///
/// ### To ensure correctness
/// A snapshot belongs to one life of an entry and is valid as long as that is: nothing is ever inserted ahead of an entry (PR16). So the
/// sum is never less than what is there, however old the snapshot is.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// Identifies the life of the entry.
    pub(crate) token: FencingToken,
    /// As of the look, before anything left.
    pub(crate) ahead_count: AheadCount,
    /// The entries whose nodes are watched, in the order of the count.
    pub(crate) watched: Vec<EntryId>,
    /// How many entries were ahead, for people. Some may have left since.
    pub(crate) entries_ahead: u64,
    /// The node of the entry that holds the lock, or of one of those that do.
    pub(crate) first: String,
    /// The holder, if it is known.
    pub(crate) holder: Option<Holder>,
    /// The queue was read just now.
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

    /// Which of the watched entries is the first of the queue, if any.
    pub(crate) fn position_of_first(&self) -> Option<usize> {
        self.ahead_count.watched_nodes().position(|node| node == self.first)
    }
}
