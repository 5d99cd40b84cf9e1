//! [`Critical`]: a critical section that fails when too many permits are in it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::audit::safety;

/// What a lock protects in a case. It counts the permits inside, and panics if they exceed the limit.
#[derive(Clone, Debug)]
pub struct Critical(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: u64,
    inside: AtomicU64,
    most: AtomicU64,
    visits: AtomicU64,
}

/// Permits inside the section. Dropping it leaves the section.
#[derive(Debug)]
#[must_use = "dropping it is leaving the section"]
pub struct Inside {
    section: Critical,
    permits: u64,
}

impl Critical {
    /// A section for at most `limit` permits.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        let limit = u64::from(limit);
        Self(Arc::new(Inner {
            limit,
            inside: AtomicU64::new(0),
            most: AtomicU64::new(0),
            visits: AtomicU64::new(0),
        }))
    }

    /// Enters with this many permits.
    ///
    /// # Panics
    /// If they exceed the limit.
    pub fn enter(&self, permits: u32) -> Inside {
        let permits = u64::from(permits);
        let inside = self.0.inside.fetch_add(permits, Ordering::SeqCst) + permits;
        safety(
            inside <= self.0.limit,
            format_args!("{inside} permits are held at once, and the limit is {}", self.0.limit),
        );
        self.0.most.fetch_max(inside, Ordering::SeqCst);
        self.0.visits.fetch_add(1, Ordering::SeqCst);
        Inside { section: self.clone(), permits }
    }

    /// The most permits that were inside at once.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.0.most.load(Ordering::SeqCst)
    }

    /// How often the section was entered.
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.0.visits.load(Ordering::SeqCst)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.section.0.inside.fetch_sub(self.permits, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "3 permits are held at once, and the limit is 2")]
    fn one_permit_too_many_is_noticed() {
        let section = Critical::new(2);
        let _one = section.enter(1);
        let _two = section.enter(2);
    }

    #[test]
    fn permits_that_left_take_no_room() {
        let section = Critical::new(2);
        for _ in 0..3 {
            drop(section.enter(2));
        }
        assert_eq!((section.most(), section.visits()), (2, 3));
    }
}
