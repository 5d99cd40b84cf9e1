//! [`Numbers`]: small numbers, each of which has at most one user at a time.

use std::collections::BTreeSet;

/// The numbers in use. The smallest free number is given next, so that few keys are used over and over.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// Every number from here on is free.
    next: u32,
    free: BTreeSet<u32>,
}

impl Numbers {
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Returns whether all numbers are free now.
    pub(super) fn give_back(&mut self, number: u32) -> bool {
        self.free.insert(number);
        self.free.len() == self.next as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_owner_at_a_time_and_the_smallest_goes_first() {
        let mut numbers = Numbers::default();
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [0, 1, 2]);
        assert!(!numbers.give_back(1) && !numbers.give_back(0));
        assert_eq!([numbers.take(), numbers.take(), numbers.take()], [0, 1, 3]);
        assert!(!numbers.give_back(3) && !numbers.give_back(0) && !numbers.give_back(2));
        assert!(numbers.give_back(1), "all are free again");
    }
}
