//! Histories of what clients saw, and checkers for them.
//!
//! A [`History`] is a list of [`Event`]s with the times at which they happened, on one clock. [`check`] runs all checkers
//! over it:
//!
//! | id | what must hold | in |
//! |---|---|---|
//! | M1 | the clients that believe at the same time that they hold a lock fit its limit | [`exclusion`] |
//! | M1b | a try is refused only if another entry may have been in the way | [`refusal`] |
//! | M2 | a grant that was returned before another was requested has the smaller token, and no token comes twice | [`fencing`] |
//! | M2r | of two grants that exclude each other, the earlier has the smaller token | [`fencing`] |
//! | M4 | a lost signal comes at the deadline, before another client is granted the lock; an evicted holder learns of it within its ttl; nothing is lost without a fault, and nothing is held for longer than it may be | [`loss`] |
//! | M5 | no client waits while no entry can be in its way, every wait ends, and a try does not wait | [`liveness`] |
//! | M6 | an entry that was in the queue before another one was created is granted first | [`fairness`] |
//!
//! M7, that nothing is left behind, cannot be seen in a history: the simulation looks at the store for it.

mod acquisition;
mod event;
pub mod exclusion;
pub mod fairness;
pub mod fencing;
pub mod liveness;
pub mod loss;
mod presence;
pub mod refusal;
mod timeline;

pub use self::{
    acquisition::{Acquisition, Hold, Outcome},
    event::{AcquireMode, Event, EventKind, GiveBack, Op},
    timeline::{History, Violation},
};

/// Runs every checker, and returns all violations.
#[must_use]
pub fn check(history: &History) -> Vec<Violation> {
    let acquisitions = history.acquisitions();
    let checkers =
        [exclusion::check, refusal::check, fencing::check, loss::check, liveness::check, fairness::check];
    checkers.iter().flat_map(|check| check(history, &acquisitions)).collect()
}

#[cfg(test)]
mod tests;
