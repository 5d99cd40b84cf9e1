//! [`Config`]: who takes part, what may go wrong, and which rule is left out.

use lock_core::Claim;

use crate::types::{Id, Ticks};

/// A system to explore. Requests are quick here, but they and their answers can be lost.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The claim of each client, which it acquires again and again.
    pub(crate) claims: Vec<Claim>,
    /// The ttl of every session and of every entry.
    pub(crate) ttl: Ticks,
    /// How many departures and forgotten entries there are at a time.
    pub(crate) left_behind: usize,
    /// Whether an operator deletes entries.
    pub(crate) evictions: bool,
    pub(crate) crashes: bool,
    pub(crate) mutation: Option<Mutation>,
}

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// A deadline is counted from the `enter`, which does not extend the session.
    Pr01,
    /// An entry that no client tracks has no dead-man's timer.
    Pr09,
    /// Only the last entry ahead is watched.
    Pr15,
    /// Any watched departure is taken for a grant.
    Pr16,
    /// A client that finds its entry in the queue takes all others to be ahead of it.
    Pr17,
    /// A live session counts as a proof of its entry.
    Pr18,
}

impl Config {
    pub(crate) fn new(claims: impl Into<Vec<Claim>>, ttl: Ticks) -> Self {
        Self { claims: claims.into(), ttl, left_behind: 1, evictions: false, crashes: false, mutation: None }
    }

    pub(super) fn leaves_out(&self, rule: Mutation) -> bool {
        self.mutation == Some(rule)
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = u8> + use<> {
        0..self.claims.len() as u8
    }

    pub(super) fn claim(&self, id: Id) -> Claim {
        self.claims[usize::from(id.client)]
    }
}
