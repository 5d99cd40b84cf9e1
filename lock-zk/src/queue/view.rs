//! [`QueueView`]: the entries of a queue, in order, and what they mean for one of them.

use lock_core::{Claim, EntryId, admission::fits};

use crate::keys::entry_node::EntryNode;

/// The entries of a queue, first to last.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueView(Vec<EntryNode>);

/// The entries ahead of one that asks for `claim`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntriesAhead<'a> {
    nodes: &'a [EntryNode],
    claim: Claim,
}

impl QueueView {
    /// Puts the nodes in order. All are children of one container, and they span less than half of its counter, so each can be compared
    /// with any other.
    pub(crate) fn new(mut nodes: Vec<EntryNode>) -> Self {
        if let Some(pivot) = nodes.first().map(|node| node.sequence) {
            nodes.sort_by_key(|node| node.behind(pivot));
        }
        Self(nodes)
    }

    pub(crate) fn nodes(&self) -> &[EntryNode] {
        &self.0
    }

    /// The nodes of an entry: one, if the entry is in the queue.
    pub(crate) fn nodes_of(&self, entry: EntryId) -> impl Iterator<Item = &EntryNode> {
        self.0.iter().filter(move |node| node.entry == entry)
    }

    /// The entries ahead of an entry that asks for `claim`. `None` if the entry is not in the queue.
    pub(crate) fn ahead_of(&self, entry: EntryId, claim: Claim) -> Option<EntriesAhead<'_>> {
        let place = self.0.iter().position(|node| node.entry == entry)?;
        Some(EntriesAhead { nodes: &self.0[..place], claim })
    }

    /// The entries that would be ahead of a new one.
    pub(crate) fn ahead_of_next(&self, claim: Claim) -> EntriesAhead<'_> {
        EntriesAhead { nodes: &self.0, claim }
    }
}

impl<'a> EntriesAhead<'a> {
    pub(crate) fn nodes(&self) -> &'a [EntryNode] {
        self.nodes
    }

    /// The first entry, if its kind of lock or its limit differs from ours. The first entry determines the kind and the limit of the name; an
    /// entry that disagrees with it is about to leave (PR07).
    pub(crate) fn mismatched(&self) -> Option<&'a EntryNode> {
        self.nodes.first().filter(|first| !first.claim.agrees_with(&self.claim))
    }

    /// The sum of their permits.
    pub(crate) fn permits(&self) -> u64 {
        self.nodes.iter().map(|node| self.permits_of(node)).sum()
    }

    /// Whether an entry behind them is admitted.
    pub(crate) fn admits(&self) -> bool {
        fits(self.permits(), self.claim)
    }

    /// The nearest entries that block an entry behind them: while all of them exist, that entry is not admitted (PR15). As few as possible: a
    /// reader is blocked by the last writer, and by none of the readers behind that writer.
    pub(crate) fn blockers(&self) -> Vec<&'a EntryNode> {
        let mut sum = 0;
        let Some(first) = self.nodes.iter().rposition(|node| {
            sum += self.permits_of(node);
            !fits(sum, self.claim)
        }) else {
            return Vec::new();
        };
        let mut blockers: Vec<_> = self.nodes[first..].iter().collect();
        for i in (1..blockers.len()).rev() {
            let without = sum - self.permits_of(blockers[i]);
            if !fits(without, self.claim) {
                sum = without;
                blockers.remove(i);
            }
        }
        blockers
    }

    /// The entry right ahead of the first blocker. When it leaves, the blockers are about to be admitted.
    pub(crate) fn lookahead(&self) -> Option<&'a EntryNode> {
        let first = self.blockers().first()?.sequence;
        self.nodes.iter().rev().find(|node| node.behind(first) < 0)
    }

    /// The entries to watch, first to last: the lookahead and the blockers.
    pub(crate) fn watched(&self) -> impl Iterator<Item = &'a EntryNode> {
        self.lookahead().into_iter().chain(self.blockers())
    }

    /// The permits of the entries behind this one.
    pub(crate) fn permits_behind(&self, node: &EntryNode) -> u64 {
        let behind = self.nodes.iter().rev().take_while(|other| other.name != node.name);
        behind.map(|node| self.permits_of(node)).sum()
    }

    /// The permits of an entry. One that disagrees about the kind or the limit counts as the whole limit until it has left.
    pub(crate) fn permits_of(&self, node: &EntryNode) -> u64 {
        u64::from(if node.claim.agrees_with(&self.claim) { node.claim.permits() } else { self.claim.limit() })
    }
}

#[cfg(test)]
mod tests {
    use lock_core::admission;
    use proptest::prelude::*;

    use super::*;
    use crate::keys::entry_node::{prefix, written};

    fn queue(claims: &[Claim], first: i32) -> QueueView {
        let node = |(i, claim): (usize, &Claim)| {
            let sequence = written(first.wrapping_add(i32::try_from(i).unwrap()));
            EntryNode::read(&(prefix(EntryId::new(i as u128), *claim) + &sequence)).unwrap()
        };
        let mut nodes: Vec<_> = claims.iter().enumerate().map(node).collect();
        nodes.reverse();
        QueueView::new(nodes)
    }

    proptest! {
        #[test]
        fn one_queue_is_judged_as_by_the_rule_of_admission(
            permits in prop::collection::vec(1..5_u32, 1..12),
            first in prop_oneof![Just(0), Just(i32::MAX - 3), Just(-4)],
        ) {
            let claims: Vec<_> = permits.into_iter().map(|k| Claim::semaphore(k, 4).unwrap()).collect();
            let queue = queue(&claims, first);
            let admitted = admission::admitted(claims.iter().copied());
            for (i, &claim) in claims.iter().enumerate() {
                let ahead = queue.ahead_of(EntryId::new(i as u128), claim).unwrap();
                prop_assert_eq!(ahead.nodes().len(), i);
                prop_assert_eq!(ahead.admits(), i < admitted);
                // The nearest set, without an entry that could be left out.
                let blockers = ahead.blockers();
                let nearest = admission::blockers(claim, claims[..i].iter().rev().copied()).unwrap_or(0);
                prop_assert!(blockers.iter().all(|node| node.sequence.wrapping_sub(first) >= i32::try_from(i - nearest).unwrap()));
                let sum: u64 = blockers.iter().map(|node| ahead.permits_of(node)).sum();
                prop_assert_eq!(blockers.is_empty(), ahead.admits());
                prop_assert!(blockers.is_empty() || !fits(sum, claim));
                prop_assert!(blockers.iter().all(|node| fits(sum - ahead.permits_of(node), claim)));
            }
        }
    }

    #[test]
    fn a_reader_waits_for_the_last_writer_ahead_and_a_writer_for_the_last_one() {
        let (r, w) = (Claim::reader(), Claim::writer());
        let queue = queue(&[w, r, w, r, r], 0);
        let blockers = |i: u128, claim| queue.ahead_of(EntryId::new(i), claim).unwrap().blockers();
        assert_eq!(blockers(4, r), [&queue.nodes()[2]], "not the reader behind the writer");
        assert_eq!(blockers(2, w), [&queue.nodes()[1]]);
        let lookahead = |i: u128, claim| queue.ahead_of(EntryId::new(i), claim).unwrap().lookahead();
        assert_eq!((lookahead(4, r), lookahead(2, w)), (Some(&queue.nodes()[1]), Some(&queue.nodes()[0])));
        assert_eq!(lookahead(1, r), None);
    }

    /// PR07.
    #[test]
    fn an_entry_that_disagrees_with_the_first_counts_as_the_whole_limit() {
        let (m, s) = (Claim::mutex(), Claim::semaphore(1, 3).unwrap());
        let queue = queue(&[s, m, s], 0);
        let of = |i: u128, claim| queue.ahead_of(EntryId::new(i), claim).unwrap();
        assert!(of(1, m).mismatched().is_some());
        assert!(of(2, s).mismatched().is_none(), "the mutex is about to leave");
        assert!(!of(2, s).admits(), "but it is there");
        assert_eq!(of(2, s).blockers().len(), 1);
    }
}
