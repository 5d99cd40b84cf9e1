//! [`HedgeBudget`]: how many requests may be sent beside others that are not answered.

use std::sync::atomic::{AtomicU32, Ordering};

/// One request in so many.
const SHARE: u32 = 10;

/// So many at once after a time in which there was no need.
const AT_ONCE: u32 = 10;

/// What may be sent beside requests that are not answered: a small share of all. Where a cluster is slow, each request that is
/// sent again makes it slower, and a create that may arrive twice concerns others when it leaves.
#[derive(Debug)]
pub(super) struct HedgeBudget(AtomicU32);

impl HedgeBudget {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(SHARE * AT_ONCE))
    }

    /// A request is made.
    pub(super) fn earn(&self) {
        // Mostly there is nothing to add, and what is only read stays in everybody's cache.
        if self.0.load(Ordering::Relaxed) < SHARE * AT_ONCE {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether one may be sent beside another.
    pub(super) fn spend(&self) -> bool {
        let spent = |left: u32| left.checked_sub(SHARE);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_and_then_one_of_ten() {
        let budget = HedgeBudget::new();
        assert_eq!((0..100).filter(|_| budget.spend()).count(), 10);
        let mut spent = 0;
        for _ in 0..1_000 {
            budget.earn();
            spent += usize::from(budget.spend());
        }
        assert_eq!(spent, 100);
        (0..1_000).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.spend()).count(), 10, "it is not saved up");
    }
}
