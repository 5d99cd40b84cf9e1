//! [`Line`]: everybody in a queue, in order, and what that means for one of them.

use lock_core::{Claim, EntryId, admission::fits};

use crate::row::Row;

/// Everybody in a queue, first to last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line(Vec<Row>);

/// Those ahead of somebody.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead<'a> {
    rows: &'a [Row],
    claim: Claim,
}

impl Line {
    /// Puts them in order. All are children of one container, and together they are not longer than half its counter: so one of
    /// them tells where the others stand.
    pub(crate) fn new(mut rows: Vec<Row>) -> Self {
        if let Some(pivot) = rows.first().map(|row| row.sequence) {
            rows.sort_by_key(|row| row.behind(pivot));
        }
        Self(rows)
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.0
    }

    /// Everybody of this entry's id: one, if it is there.
    pub(crate) fn all_of(&self, entry: EntryId) -> impl Iterator<Item = &Row> {
        self.0.iter().filter(move |row| row.entry == entry)
    }

    /// Who stands ahead of an entry, which asks for `claim`. `None` if it is not there.
    pub(crate) fn ahead_of(&self, entry: EntryId, claim: Claim) -> Option<Ahead<'_>> {
        let place = self.0.iter().position(|row| row.entry == entry)?;
        Some(Ahead { rows: &self.0[..place], claim })
    }

    /// Who would stand ahead of whoever comes now.
    pub(crate) fn ahead_of_next(&self, claim: Claim) -> Ahead<'_> {
        Ahead { rows: &self.0, claim }
    }
}

impl<'a> Ahead<'a> {
    pub(crate) fn rows(&self) -> &'a [Row] {
        self.rows
    }

    /// Whoever makes the name another kind of lock, or one with another limit. The first decides: who disagrees with the first
    /// is about to leave (PR07).
    pub(crate) fn stranger(&self) -> Option<&'a Row> {
        self.rows.first().filter(|first| !first.claim.agrees_with(&self.claim))
    }

    /// How many permits they have or want, in all.
    pub(crate) fn permits(&self) -> u64 {
        self.rows.iter().map(|row| self.weight(row)).sum()
    }

    /// Whether whoever stands behind them is admitted.
    pub(crate) fn admits(&self) -> bool {
        fits(self.permits(), self.claim)
    }

    /// The nearest that keep whoever stands behind them out: while all of them live, that is so (PR15). As few as it takes: for a
    /// reader that is the last writer, and none of the readers behind that.
    pub(crate) fn blockers(&self) -> Vec<&'a Row> {
        let mut sum = 0;
        let Some(first) = self.rows.iter().rposition(|row| {
            sum += self.weight(row);
            !fits(sum, self.claim)
        }) else {
            return Vec::new();
        };
        let mut blockers: Vec<_> = self.rows[first..].iter().collect();
        for i in (1..blockers.len()).rev() {
            let without = sum - self.weight(blockers[i]);
            if !fits(without, self.claim) {
                sum = without;
                blockers.remove(i);
            }
        }
        blockers
    }

    /// Who stands right ahead of the first of the blockers: when it leaves, the turn comes near.
    pub(crate) fn herald(&self) -> Option<&'a Row> {
        let first = self.blockers().first()?.sequence;
        self.rows.iter().rev().find(|row| row.behind(first) < 0)
    }

    /// Who has to be watched, first to last: the herald, and the blockers.
    pub(crate) fn watched(&self) -> impl Iterator<Item = &'a Row> {
        self.herald().into_iter().chain(self.blockers())
    }

    /// How many permits those between one of them and whoever stands behind them have or want.
    pub(crate) fn permits_behind(&self, row: &Row) -> u64 {
        let behind = self.rows.iter().rev().take_while(|other| other.node != row.node);
        behind.map(|row| self.weight(row)).sum()
    }

    /// Who disagrees counts as the whole limit, until it has left.
    pub(crate) fn weight(&self, row: &Row) -> u64 {
        u64::from(if row.claim.agrees_with(&self.claim) { row.claim.permits() } else { self.claim.limit() })
    }
}

#[cfg(test)]
mod tests {
    use lock_core::admission;
    use proptest::prelude::*;

    use super::*;
    use crate::row::{prefix, written};

    fn line(claims: &[Claim], first: i32) -> Line {
        let row = |(i, claim): (usize, &Claim)| {
            let sequence = written(first.wrapping_add(i32::try_from(i).unwrap()));
            Row::read(&(prefix(EntryId::new(i as u128), *claim) + &sequence)).unwrap()
        };
        let mut rows: Vec<_> = claims.iter().enumerate().map(row).collect();
        rows.reverse();
        Line::new(rows)
    }

    proptest! {
        #[test]
        fn one_queue_is_judged_as_by_the_rule_of_admission(
            permits in prop::collection::vec(1..5_u32, 1..12),
            first in prop_oneof![Just(0), Just(i32::MAX - 3), Just(-4)],
        ) {
            let claims: Vec<_> = permits.into_iter().map(|k| Claim::semaphore(k, 4).unwrap()).collect();
            let line = line(&claims, first);
            let admitted = admission::admitted(claims.iter().copied());
            for (i, &claim) in claims.iter().enumerate() {
                let ahead = line.ahead_of(EntryId::new(i as u128), claim).unwrap();
                prop_assert_eq!(ahead.rows().len(), i);
                prop_assert_eq!(ahead.admits(), i < admitted);
                // The nearest set, and of that none who could be left out.
                let blockers = ahead.blockers();
                let nearest = admission::blockers(claim, claims[..i].iter().rev().copied()).unwrap_or(0);
                prop_assert!(blockers.iter().all(|row| row.sequence.wrapping_sub(first) >= i32::try_from(i - nearest).unwrap()));
                let sum: u64 = blockers.iter().map(|row| ahead.weight(row)).sum();
                prop_assert_eq!(blockers.is_empty(), ahead.admits());
                prop_assert!(blockers.is_empty() || !fits(sum, claim));
                prop_assert!(blockers.iter().all(|row| fits(sum - ahead.weight(row), claim)));
            }
        }
    }

    #[test]
    fn a_reader_waits_for_the_last_writer_ahead_and_a_writer_for_the_last_one() {
        let (r, w) = (Claim::reader(), Claim::writer());
        let line = line(&[w, r, w, r, r], 0);
        let blockers = |i: u128, claim| line.ahead_of(EntryId::new(i), claim).unwrap().blockers();
        assert_eq!(blockers(4, r), [&line.rows()[2]], "not the reader behind the writer");
        assert_eq!(blockers(2, w), [&line.rows()[1]]);
        let herald = |i: u128, claim| line.ahead_of(EntryId::new(i), claim).unwrap().herald();
        assert_eq!((herald(4, r), herald(2, w)), (Some(&line.rows()[1]), Some(&line.rows()[0])));
        assert_eq!(herald(1, r), None);
    }

    /// PR07.
    #[test]
    fn the_first_decides_what_a_name_is_and_who_disagrees_counts_as_the_whole_limit() {
        let (m, s) = (Claim::mutex(), Claim::semaphore(1, 3).unwrap());
        let line = line(&[s, m, s], 0);
        let of = |i: u128, claim| line.ahead_of(EntryId::new(i), claim).unwrap();
        assert!(of(1, m).stranger().is_some());
        assert!(of(2, s).stranger().is_none(), "the mutex is about to leave");
        assert!(!of(2, s).admits(), "but it is there");
        assert_eq!(of(2, s).blockers().len(), 1);
    }
}
