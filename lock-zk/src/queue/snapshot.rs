//! [`Snapshot`]: the entries ahead of a waiter, as it has seen them.

use lock_core::{Claim, EntryId, FencingToken, Holder};

use super::{ahead_count::AheadCount, view::EntriesAhead};

/// The entries ahead of a waiter, as it has seen them in a look at the whole queue. While all entries that it watches exist, it does not
/// need to look at the others again.
///
/// ### To ensure correctness
/// A snapshot belongs to one life of an entry and is valid as long as that life lasts: nothing is ever inserted ahead of an entry (PR16). So
/// the sum is never less than the true sum, however old the snapshot is.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    token: FencingToken,
    /// As of the look, before anything left.
    ahead_count: AheadCount,
    /// The entries whose nodes are watched, in the order of the count.
    watched: Vec<EntryId>,
    /// The number of entries that were ahead, for messages. Some may have left since.
    entries_ahead: u64,
    /// The node of the entry that holds the lock, or of one of several holders.
    first: String,
    /// The holder, if it is known.
    holder: Option<Holder>,
    /// Whether the queue was read just now.
    is_fresh: bool,
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

    /// Identifies the life of the entry that the snapshot belongs to.
    pub(crate) fn token(&self) -> FencingToken {
        self.token
    }

    pub(crate) fn ahead_count(&self) -> &AheadCount {
        &self.ahead_count
    }

    /// The entries to watch, in the order of the count.
    pub(crate) fn watched(&self) -> &[EntryId] {
        &self.watched
    }

    /// The number of entries that were ahead, for messages.
    pub(crate) fn entries_ahead(&self) -> u64 {
        self.entries_ahead
    }

    /// The node of the first entry, which holds the lock.
    pub(crate) fn first(&self) -> &str {
        &self.first
    }

    pub(crate) fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    pub(crate) fn set_holder(&mut self, holder: Option<Holder>) {
        self.holder = holder;
    }

    /// Whether the queue was read just now.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    pub(crate) fn mark_old(&mut self) {
        self.is_fresh = false;
    }

    /// Which of the watched entries is the first of the queue, if any.
    pub(crate) fn position_of_first(&self) -> Option<usize> {
        self.ahead_count.watched_nodes().position(|node| node == self.first)
    }
}
