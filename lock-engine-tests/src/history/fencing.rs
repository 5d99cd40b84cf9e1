//! M2 and M2r: the order of the tokens.

use super::{
    acquisition::Acquisition,
    timeline::{History, Violation},
};

/// Compares the tokens of every two grants of a name.
#[must_use]
pub fn check(_: &History, acquisitions: &[Acquisition]) -> Vec<Violation> {
    let granted: Vec<_> =
        acquisitions.iter().filter_map(|a| a.hold().map(|(at, hold)| (a, at, hold))).collect();
    let mut violations = Vec::new();
    for (i, &(one, one_at, one_hold)) in granted.iter().enumerate() {
        for &(other, other_at, other_hold) in &granted[i + 1..] {
            if one.name != other.name {
                continue;
            }
            let mut found = |id, what| violations.push(Violation::between(id, one.op, other.op, what));
            if one_hold.token == other_hold.token {
                found("M2", "they have the same token");
            }
            let grows = one_hold.token < other_hold.token;
            if (one_at < other.invoked && !grows) || (other_at < one.invoked && grows) {
                found("M2", "the later one, asked for after the earlier was granted, has the smaller token");
            }
            // A holder that an operator evicted may learn of its grant after the next holder has learned of its own.
            let orderly = one_hold.evicted.is_none() && other_hold.evicted.is_none();
            if orderly && !one.goes_with(other) && one_at != other_at && (one_at < other_at) != grows {
                found("M2r", "they exclude each other, and the later one has the smaller token");
            }
        }
    }
    violations
}
