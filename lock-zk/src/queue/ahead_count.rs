//! [`AheadCount`]: how many permits are left ahead of a waiter, as far as it knows.

use lock_core::{Claim, admission::fits};

use super::view::EntriesAhead;

/// What a waiter knows about the entries ahead of it: the sum of their permits, and which of the watched entries are left.
///
/// ### To ensure correctness
/// The sum is never less than the true sum. The look saw *all* entries ahead, and from then on they only leave (PR16). An entry that
/// leaves is subtracted once: not again when a later list lacks it, and not when a list that still has it arrives after the event of
/// its deletion. If the entry that left had once been first, everything ahead of it has already gone.
#[derive(Clone, Debug)]
pub(crate) struct AheadCount {
    claim: Claim,
    /// An upper bound for the permits of all entries ahead.
    permits: u64,
    /// The watched entries, first to last.
    watched: Vec<WatchedEntry>,
}

/// An entry ahead whose node is watched.
#[derive(Clone, Debug)]
struct WatchedEntry {
    node: String,
    permits: u64,
    /// The permits of the entries between it and the waiter.
    between: u64,
    /// Whether it blocks the waiter (PR15). If not, it is the lookahead, right ahead of the first blocker.
    blocks: bool,
    present: bool,
    /// Whether the sum includes it.
    counted: bool,
}

impl AheadCount {
    /// The count after a look. The lookahead, if there is one, and the blockers are watched.
    pub(crate) fn new(ahead: &EntriesAhead<'_>, claim: Claim) -> Self {
        let lookahead = ahead.lookahead();
        let watched = ahead.watched().map(|node| WatchedEntry {
            node: node.name.clone(),
            permits: ahead.permits_of(node),
            between: ahead.permits_behind(node),
            blocks: Some(node) != lookahead,
            present: true,
            counted: true,
        });
        Self { claim, permits: ahead.permits(), watched: watched.collect() }
    }

    /// The nodes to watch, first to last.
    pub(crate) fn watched_nodes(&self) -> impl Iterator<Item = &str> {
        self.watched.iter().map(|watched| &*watched.node)
    }

    /// Records that the node at this place was deleted. `was_first`: at some time, no entry was ahead of it.
    pub(crate) fn mark_left(&mut self, which: usize, was_first: bool) {
        let first = if was_first { 0 } else { which };
        for watched in &mut self.watched[first..=which] {
            watched.present = false;
            if std::mem::take(&mut watched.counted) {
                self.permits -= watched.permits;
            }
        }
        if was_first {
            let behind = &self.watched[which + 1..];
            let left: u64 =
                behind.iter().filter(|watched| !watched.present).map(|watched| watched.permits).sum();
            self.permits = self.permits.min(self.watched[which].between - left);
        }
    }

    /// Takes a list into account, which may be older than some of the events that arrived before it.
    pub(crate) fn recount(&mut self, now: &EntriesAhead<'_>) {
        let has_left =
            |node: &str| self.watched.iter().any(|watched| !watched.present && watched.node == node);
        let nodes = now.nodes().iter().filter(|node| !has_left(&node.name));
        let sum = nodes.map(|node| now.permits_of(node)).sum();
        for watched in self.watched.iter_mut().filter(|watched| watched.present) {
            watched.counted &= now.nodes().iter().any(|node| node.name == watched.node);
        }
        self.permits = self.permits.min(sum);
    }

    /// Whether all watched entries still exist, as far as is known.
    pub(crate) fn is_complete(&self) -> bool {
        self.watched.iter().all(|watched| watched.present)
    }

    /// Whether the waiter is admitted.
    pub(crate) fn admits(&self) -> bool {
        fits(self.permits, self.claim)
    }

    /// Whether the watched entries block the waiter. The lookahead counts as well: if one of several blockers leaves, the lookahead
    /// replaces it, and the waiter need not look again.
    pub(crate) fn is_blocked(&self) -> bool {
        let present = self.watched.iter().filter(|watched| watched.present);
        !fits(present.map(|watched| watched.permits).sum(), self.claim)
    }

    /// Whether the lookahead has left and it is unknown what is left ahead of it, so that the waiter has to list the queue.
    pub(crate) fn is_uncertain(&self) -> bool {
        let counted =
            self.watched.iter().filter(|watched| watched.counted).map(|watched| watched.permits).sum();
        let lookahead_left = self.watched.first().is_some_and(|first| !first.blocks && !first.present);
        lookahead_left && self.permits > counted
    }
}

#[cfg(test)]
mod tests {
    use lock_core::EntryId;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        keys::entry_node::{EntryNode, prefix, written},
        queue::QueueView,
    };

    fn node(i: i32, claim: Claim) -> EntryNode {
        EntryNode::read(&(prefix(EntryId::new(u128::from(i.unsigned_abs())), claim) + &written(i))).unwrap()
    }

    /// A queue in which the waiter is the last.
    fn queue(claims: &[Claim]) -> Vec<EntryNode> {
        (0..).zip(claims).map(|(i, claim)| node(i, *claim)).collect()
    }

    fn count(nodes: &[EntryNode]) -> AheadCount {
        let me = nodes.last().unwrap().clone();
        AheadCount::new(&QueueView::new(nodes.to_vec()).ahead_of(me.entry, me.claim).unwrap(), me.claim)
    }

    fn recount(count: &mut AheadCount, nodes: &[EntryNode]) {
        let me = nodes.last().unwrap().clone();
        count.recount(&QueueView::new(nodes.to_vec()).ahead_of(me.entry, me.claim).unwrap());
    }

    #[test]
    fn a_delete_is_the_grant_where_a_list_has_shown_that_nobody_else_is_left() {
        let nodes = queue(&[Claim::mutex(); 4]);
        let mut count = count(&nodes);
        assert_eq!(count.watched_nodes().collect::<Vec<_>>(), [&nodes[1].name, &nodes[2].name]);
        count.mark_left(0, false);
        assert!(count.is_uncertain() && count.is_blocked() && !count.admits());
        recount(&mut count, &nodes[2..]);
        assert!(!count.is_uncertain() && count.is_blocked() && !count.admits());
        count.mark_left(1, false);
        assert!(count.admits());
    }

    #[test]
    fn without_a_list_only_the_delete_of_a_former_first_entry_is_a_grant() {
        let nodes = queue(&[Claim::mutex(); 4]);
        let mut asks = count(&nodes);
        asks.mark_left(1, false);
        assert!(!asks.admits() && asks.is_blocked(), "the lookahead is there");
        asks.mark_left(0, false);
        assert!(!asks.admits() && !asks.is_blocked());
        let mut knows = count(&nodes);
        knows.mark_left(1, true);
        assert!(knows.admits());
        let mut knows = count(&nodes);
        knows.mark_left(0, true);
        assert!(!knows.is_uncertain() && !knows.admits());
        knows.mark_left(1, false);
        assert!(knows.admits());
    }

    #[test]
    fn the_release_of_one_permit_gives_only_the_first_waiter_something_to_do() {
        let nodes = queue(&[Claim::semaphore(1, 3).unwrap(); 8]);
        // Three entries hold permits, and the last of them leaves.
        for waits in 3..8 {
            let mut count = count(&nodes[..=waits]);
            let which = count.watched_nodes().position(|node| node == nodes[2].name);
            if let Some(which) = which {
                count.mark_left(which, false);
            }
            assert_eq!(count.is_blocked(), waits > 3, "{waits}");
            assert_eq!(count.admits(), waits == 3, "{waits}");
        }
    }

    /// The list was read before the delete and arrives after its event, or vice versa.
    #[test]
    fn an_entry_is_subtracted_once_in_whatever_order_list_and_event_come() {
        let nodes = queue(&[Claim::mutex(); 4]);
        let mut late = count(&nodes);
        late.mark_left(1, false);
        recount(&mut late, &nodes[1..]);
        assert!(!late.admits(), "one is left");
        recount(&mut late, &nodes[3..]);
        assert!(late.admits());
        let mut early = count(&nodes);
        recount(&mut early, &[nodes[0].clone(), nodes[1].clone(), nodes[3].clone()]);
        early.mark_left(1, false);
        early.mark_left(0, false);
        assert!(!early.admits(), "the first is left");
    }

    proptest! {
        /// Whatever leaves, and in whatever order events and lists arrive, an admitted waiter fits.
        #[test]
        fn the_sum_is_never_less_than_what_is_there(
            permits in prop::collection::vec(1..4_u32, 2..9),
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8), 1..24),
        ) {
            let claims: Vec<_> = permits.iter().map(|k| Claim::semaphore(*k, 3).unwrap()).collect();
            let mut nodes = queue(&claims);
            let me = nodes.last().unwrap().clone();
            let mut count = count(&nodes);
            let watched: Vec<_> = count.watched_nodes().map(str::to_owned).collect();
            // What the server has sent and the waiter has not seen, in order: events by node, and lists.
            let mut under_way: Vec<Result<(usize, bool), Vec<EntryNode>>> = Vec::new();
            for (pick, what) in steps {
                match what {
                    0 | 1 if nodes.len() > 1 => {
                        let i = pick.index(nodes.len() - 1);
                        let gone = nodes.remove(i);
                        let was_first = i == 0 && gone.claim.permits() == 3;
                        if let Some(which) = watched.iter().position(|node| *node == gone.name) {
                            under_way.push(Ok((which, was_first)));
                        }
                    }
                    2 => under_way.push(Err(nodes.clone())),
                    // Events and lists arrive independently of one another.
                    _ if !under_way.is_empty() => match under_way.remove(pick.index(under_way.len())) {
                        Ok((which, was_first)) => count.mark_left(which, was_first),
                        Err(list) => recount(&mut count, &list),
                    },
                    _ => {}
                }
                let queue = QueueView::new(nodes.clone());
                let truth = queue.ahead_of(me.entry, me.claim).unwrap();
                prop_assert!(!count.admits() || truth.admits(), "{:?}", nodes);
            }
        }
    }
}
