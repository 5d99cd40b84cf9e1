//! M6: an entry that was in the queue before another one was created is granted first.

use super::{
    acquisition::Acquisition,
    timeline::{History, Violation},
};

/// Compares every two grants of a name of which one was in the queue before the other was requested.
#[must_use]
pub fn check(history: &History, acquisitions: &[Acquisition]) -> Vec<Violation> {
    let granted: Vec<_> =
        acquisitions.iter().filter_map(|a| a.hold().map(|(at, hold)| (a, at, hold))).collect();
    let mut violations = Vec::new();
    for &(first, first_at, first_hold) in &granted {
        for &(second, second_at, second_hold) in &granted {
            let (Some((_, in_queue)), Some((asked, _))) = (first_hold.enqueued, second_hold.enqueued) else {
                continue;
            };
            if first.name != second.name || in_queue >= asked {
                continue;
            }
            let mut found = |what| violations.push(Violation::between("M6", first.op, second.op, what));
            if first_hold.token > second_hold.token {
                found("the first was in the queue before the second came, and has the larger token");
            }
            let orderly = first_hold.evicted.is_none() && second_hold.evicted.is_none();
            if orderly && !first.goes_with(second) && first_at > second_at {
                found("the second came later and was granted first");
            }
            // Entries that can hold together are granted together: if the second is granted long before the first, it has passed it.
            let undisturbed = history.faultless && !first.is_disturbed(first.invoked, first_at);
            if orderly && undisturbed && first.goes_with(second) && first_at > second_at + history.swift {
                found("the second came later and was granted long before");
            }
        }
    }
    violations
}
