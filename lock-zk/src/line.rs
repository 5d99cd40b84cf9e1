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

    /// The nearest that keep whoever stands behind them out: while all of them live, that is so (PR15).
    pub(crate) fn blockers(&self) -> &'a [Row] {
        let mut sum = 0;
        for (i, row) in self.rows.iter().enumerate().rev() {
            sum += self.weight(row);
            if !fits(sum, self.claim) {
                return &self.rows[i..];
            }
        }
        &[]
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
                let wanted = admission::blockers(claim, claims[..i].iter().rev().copied());
                prop_assert_eq!(ahead.blockers().len(), wanted.unwrap_or(0));
            }
        }
    }

    #[test]
    fn a_reader_waits_for_the_last_writer_ahead_and_a_writer_for_the_last_one() {
        let (r, w) = (Claim::reader(), Claim::writer());
        let line = line(&[w, r, w, r, r], 0);
        let blockers = |i: u128, claim| line.ahead_of(EntryId::new(i), claim).unwrap().blockers().to_vec();
        assert_eq!(blockers(4, r)[0].entry, EntryId::new(2));
        assert_eq!(blockers(2, w), line.rows()[1..2]);
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
