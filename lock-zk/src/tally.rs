//! [`Tally`]: what is left of those ahead, as far as a waiter has been told.

use lock_core::{Claim, admission::fits};

use crate::line::Ahead;

/// What a waiter knows of those ahead: all of them as a sum, and of those who are watched, who is left.
///
/// ### To ensure correctness
/// The sum is never less than what is there. A look saw *all* who were ahead, and from then on they only leave (PR16). Whoever leaves
/// is subtracted once: not again when a list did not have it any more, and not if a list came before the event of its deletion
/// and has it still. Where one leaves whom nobody was ahead of at some time, nobody ahead of it is left.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    claim: Claim,
    ahead: u64,
    /// First to last.
    watched: Vec<Watched>,
}

/// One ahead, whose node is watched.
#[derive(Clone, Debug)]
struct Watched {
    node: String,
    weight: u64,
    /// What there was between it and us.
    between: u64,
    /// Whether it keeps us out (PR15). The one ahead of the first of these, if there is one, is the herald.
    blocks: bool,
    there: bool,
    /// Whether the sum has it.
    counted: bool,
}

impl Tally {
    /// After a look: the herald is watched, if there is one, and whoever keeps us out.
    pub(crate) fn new(ahead: &Ahead<'_>, claim: Claim) -> Self {
        let herald = ahead.herald();
        let watched = ahead.watched().map(|row| Watched {
            node: row.node.clone(),
            weight: ahead.weight(row),
            between: ahead.permits_behind(row),
            blocks: Some(row) != herald,
            there: true,
            counted: true,
        });
        Self { claim, ahead: ahead.permits(), watched: watched.collect() }
    }

    /// The nodes to watch, first to last.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.watched.iter().map(|watched| &*watched.node)
    }

    /// The node at this place was deleted. `alone`: at some time nobody was ahead of it.
    pub(crate) fn left(&mut self, which: usize, alone: bool) {
        let first = if alone { 0 } else { which };
        for watched in &mut self.watched[first..=which] {
            watched.there = false;
            if std::mem::take(&mut watched.counted) {
                self.ahead -= watched.weight;
            }
        }
        if alone {
            let behind = &self.watched[which + 1..];
            let left: u64 =
                behind.iter().filter(|watched| !watched.there).map(|watched| watched.weight).sum();
            self.ahead = self.ahead.min(self.watched[which].between - left);
        }
    }

    /// There is a list, which may be older than what was told since it was asked for.
    pub(crate) fn recount(&mut self, now: &Ahead<'_>) {
        let gone = |node: &str| self.watched.iter().any(|watched| !watched.there && watched.node == node);
        let rows = now.rows().iter().filter(|row| !gone(&row.node));
        let sum = rows.map(|row| now.weight(row)).sum();
        for watched in self.watched.iter_mut().filter(|watched| watched.there) {
            watched.counted &= now.rows().iter().any(|row| row.node == watched.node);
        }
        self.ahead = self.ahead.min(sum);
    }

    /// Whether all who are watched were there, as far as is known.
    pub(crate) fn is_whole(&self) -> bool {
        self.watched.iter().all(|watched| watched.there)
    }

    /// Whether we are admitted.
    pub(crate) fn admits(&self) -> bool {
        fits(self.ahead, self.claim)
    }

    /// Whether those who are watched keep us out. The herald counts, too: where one of several who keep us out leaves, it takes that place,
    /// and nobody has to look again.
    pub(crate) fn is_blocked(&self) -> bool {
        let there = self.watched.iter().filter(|watched| watched.there);
        !fits(there.map(|watched| watched.weight).sum(), self.claim)
    }

    /// Whether the herald has left, and it is not known who is left of those ahead of it: it is time to ask.
    pub(crate) fn is_vague(&self) -> bool {
        let counted =
            self.watched.iter().filter(|watched| watched.counted).map(|watched| watched.weight).sum();
        let herald = self.watched.first().is_some_and(|first| !first.blocks && !first.there);
        herald && self.ahead > counted
    }
}

#[cfg(test)]
mod tests {
    use lock_core::EntryId;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        line::Line,
        row::{Row, prefix, written},
    };

    fn row(i: i32, claim: Claim) -> Row {
        Row::read(&(prefix(EntryId::new(u128::from(i.unsigned_abs())), claim) + &written(i))).unwrap()
    }

    /// A queue in which we are the last.
    fn queue(claims: &[Claim]) -> Vec<Row> {
        (0..).zip(claims).map(|(i, claim)| row(i, *claim)).collect()
    }

    fn tally(rows: &[Row]) -> Tally {
        let me = rows.last().unwrap().clone();
        Tally::new(&Line::new(rows.to_vec()).ahead_of(me.entry, me.claim).unwrap(), me.claim)
    }

    fn recount(tally: &mut Tally, rows: &[Row]) {
        let me = rows.last().unwrap().clone();
        tally.recount(&Line::new(rows.to_vec()).ahead_of(me.entry, me.claim).unwrap());
    }

    #[test]
    fn a_delete_is_the_grant_where_a_list_has_shown_that_nobody_else_is_left() {
        let rows = queue(&[Claim::mutex(); 4]);
        let mut tally = tally(&rows);
        assert_eq!(tally.nodes().collect::<Vec<_>>(), [&rows[1].node, &rows[2].node]);
        tally.left(0, false);
        assert!(tally.is_vague() && tally.is_blocked() && !tally.admits());
        recount(&mut tally, &rows[2..]);
        assert!(!tally.is_vague() && tally.is_blocked() && !tally.admits());
        tally.left(1, false);
        assert!(tally.admits());
    }

    #[test]
    fn without_a_list_a_delete_is_no_grant_unless_nobody_was_ahead_of_whom_it_was() {
        let rows = queue(&[Claim::mutex(); 4]);
        let mut asks = tally(&rows);
        asks.left(1, false);
        assert!(!asks.admits() && asks.is_blocked(), "the herald is there");
        asks.left(0, false);
        assert!(!asks.admits() && !asks.is_blocked());
        let mut knows = tally(&rows);
        knows.left(1, true);
        assert!(knows.admits());
        let mut knows = tally(&rows);
        knows.left(0, true);
        assert!(!knows.is_vague() && !knows.admits());
        knows.left(1, false);
        assert!(knows.admits());
    }

    #[test]
    fn where_one_permit_of_several_is_released_only_the_first_who_waits_has_something_to_do() {
        let rows = queue(&[Claim::semaphore(1, 3).unwrap(); 8]);
        // Three hold it, and the last of them leaves.
        for waits in 3..8 {
            let mut tally = tally(&rows[..=waits]);
            let which = tally.nodes().position(|node| node == rows[2].node);
            if let Some(which) = which {
                tally.left(which, false);
            }
            assert_eq!(tally.is_blocked(), waits > 3, "{waits}");
            assert_eq!(tally.admits(), waits == 3, "{waits}");
        }
    }

    /// The list was read before the delete, and is looked at after it; or the other way round.
    #[test]
    fn nobody_is_subtracted_twice_whichever_of_a_list_and_an_event_comes_first() {
        let rows = queue(&[Claim::mutex(); 4]);
        let mut late = tally(&rows);
        late.left(1, false);
        recount(&mut late, &rows[1..]);
        assert!(!late.admits(), "one is left");
        recount(&mut late, &rows[3..]);
        assert!(late.admits());
        let mut early = tally(&rows);
        recount(&mut early, &[rows[0].clone(), rows[1].clone(), rows[3].clone()]);
        early.left(1, false);
        early.left(0, false);
        assert!(!early.admits(), "the first is left");
    }

    proptest! {
        /// Whatever leaves, in whatever order it is told and listed: who is let in fits.
        #[test]
        fn the_sum_is_never_less_than_what_is_there(
            permits in prop::collection::vec(1..4_u32, 2..9),
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8), 1..24),
        ) {
            let claims: Vec<_> = permits.iter().map(|k| Claim::semaphore(*k, 3).unwrap()).collect();
            let mut rows = queue(&claims);
            let me = rows.last().unwrap().clone();
            let mut tally = tally(&rows);
            let nodes: Vec<_> = tally.nodes().map(str::to_owned).collect();
            // What the server has sent and we have not seen, in order: events by node, and lists.
            let mut under_way: Vec<Result<(usize, bool), Vec<Row>>> = Vec::new();
            for (pick, what) in steps {
                match what {
                    0 | 1 if rows.len() > 1 => {
                        let i = pick.index(rows.len() - 1);
                        let gone = rows.remove(i);
                        let alone = i == 0 && gone.claim.permits() == 3;
                        if let Some(which) = nodes.iter().position(|node| *node == gone.node) {
                            under_way.push(Ok((which, alone)));
                        }
                    }
                    2 => under_way.push(Err(rows.clone())),
                    // Events and lists are told apart from one another.
                    _ if !under_way.is_empty() => match under_way.remove(pick.index(under_way.len())) {
                        Ok((which, alone)) => tally.left(which, alone),
                        Err(list) => recount(&mut tally, &list),
                    },
                    _ => {}
                }
                let line = Line::new(rows.clone());
                let truth = line.ahead_of(me.entry, me.claim).unwrap();
                prop_assert!(!tally.admits() || truth.admits(), "{:?}", rows);
            }
        }
    }
}
