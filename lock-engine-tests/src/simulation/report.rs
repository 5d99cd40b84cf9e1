//! [`Report`]: what a run showed.

use std::fmt;

use super::coverage::{Cell, Coverage};
use crate::history::{History, Violation};

/// The result of one seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// What the clients saw.
    pub history: History,
    /// The broken promises.
    pub violations: Vec<Violation>,
    /// The cell of the coverage that the seed aims at, if it has an aim.
    pub aim: Option<Cell>,
    /// What the requests met.
    pub coverage: Coverage,
}

/// The history as a timeline, and below it the violations.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.history)?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "{violation}"))?;
        writeln!(f, "seed {}; the run of this seed alone: SEEDS={}..{}", self.seed, self.seed, self.seed + 1)
    }
}
