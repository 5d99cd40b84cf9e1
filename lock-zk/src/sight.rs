//! [`Sight`]: what a waiter has seen of those ahead of it.

use lock_core::{Claim, EntryId, FencingToken, Holder};

use crate::{line::Ahead, tally::Tally};

/// What a waiter has seen of those ahead of it, in a look at the whole queue. While all whom it watches are there, it need not look at
/// the others again.
///
/// ### To ensure correctness
/// It is that of one life of an entry, and holds for as long: nobody comes to stand ahead of it later (PR16). So the sum of those ahead is
/// never less than what is there, however old this is.
#[derive(Clone, Debug)]
pub(crate) struct Sight {
    /// Of the life that it is for.
    pub(crate) token: FencingToken,
    /// As of the look: nobody has left.
    pub(crate) tally: Tally,
    /// Whose nodes are watched, in the order of the tally.
    pub(crate) watched: Vec<EntryId>,
    /// How many there were ahead, for people: some may have left since.
    pub(crate) ahead: u64,
    /// The node of the one that holds the lock, or one of those.
    pub(crate) first: String,
    /// Who that is, if that is known.
    pub(crate) holder: Option<Holder>,
    /// It was looked at just now.
    pub(crate) is_new: bool,
}

impl Sight {
    pub(crate) fn new(token: FencingToken, ahead: &Ahead<'_>, claim: Claim) -> Self {
        Self {
            token,
            tally: Tally::new(ahead, claim),
            watched: ahead.watched().map(|row| row.entry).collect(),
            ahead: ahead.rows().len() as u64,
            first: ahead.rows().first().map(|first| first.node.clone()).unwrap_or_default(),
            holder: None,
            is_new: true,
        }
    }

    /// Which of those that are watched is the first, if it is one of them.
    pub(crate) fn position_of_first(&self) -> Option<usize> {
        self.tally.nodes().position(|node| node == self.first)
    }
}
