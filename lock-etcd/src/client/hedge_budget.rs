//! [`HedgeBudget`]: how many requests may be sent beside others that are not answered.

use std::sync::atomic::{AtomicU32, Ordering};

/// One request in this many may be hedged.
const SHARE: u32 = 10;

/// How many may be hedged at once after a time without hedges.
const AT_ONCE: u32 = 10;

/// Limits hedges, requests that are sent a second time because the first is not answered, to a small share of all requests. If a cluster is
/// slow, each repetition makes it slower, and the leave of an entry whose create may arrive twice needs a tombstone.
#[derive(Debug)]
pub(super) struct HedgeBudget(AtomicU32);

impl HedgeBudget {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(SHARE * AT_ONCE))
    }

    /// Counts a new request.
    pub(super) fn earn(&self) {
        // Mostly there is nothing to add, and a value that is only read stays in the caches of all processors.
        if self.0.load(Ordering::Relaxed) < SHARE * AT_ONCE {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a request may be hedged.
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
