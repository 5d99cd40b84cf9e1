//! M1b: a try is refused only if another entry may have been in the way.

use super::{
    acquisition::{Acquisition, Outcome},
    presence::presence,
    timeline::{History, Violation},
};

/// Adds up, for each refusal, the permits of all entries that can have been in the queue while it was judged.
#[must_use]
pub fn check(history: &History, acquisitions: &[Acquisition]) -> Vec<Violation> {
    let refused = acquisitions.iter().filter(|acquisition| acquisition.outcome == Outcome::Refused);
    refused
        .filter_map(|refused| {
            let answered = refused.answered?;
            let in_the_way = acquisitions.iter().filter(|other| {
                let (from, until) = presence(history, other);
                other.op != refused.op
                    && other.name == refused.name
                    && from <= answered
                    && until >= refused.invoked
            });
            let ahead: u64 = in_the_way.map(|other| u64::from(other.claim.permits())).sum();
            lock_core::admission::fits(ahead, refused.claim).then(|| {
                let what =
                    format!("{} is refused `{}`, and no entry is in the way", refused.op, refused.name);
                Violation::new("M1b", what)
            })
        })
        .collect()
}
