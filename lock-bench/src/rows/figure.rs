//! [`RowSpec`]: a row of the table, and [`Figure`]: what was measured for it.

use crate::samples::{Rounds, Samples};

/// A row, before it is measured.
#[derive(Clone, Debug)]
pub(crate) struct RowSpec {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) bound: Option<Bound>,
}

impl RowSpec {
    pub(super) fn new(name: impl Into<String>, unit: &'static str) -> Self {
        Self { name: name.into(), unit, bound: None }
    }

    pub(super) fn bound(mut self, bound: Bound) -> Self {
        self.bound = Some(bound);
        self
    }
}

/// The bound of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    RatioAtMost(f64),
    RatioAtLeast(f64),
    ValueAtMost(f64),
}

/// A row that was measured.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) row: String,
    pub(crate) value: f64,
    pub(crate) floor: Option<f64>,
    pub(crate) ratio: Option<f64>,
    /// The least and the largest of the rounds: of their ratios, or of their values where there is no floor.
    pub(crate) spread: Option<(f64, f64)>,
    /// Calls that scripts on the server made.
    pub(crate) inside: Option<f64>,
}

impl Figure {
    /// A value without a floor.
    pub(super) fn plain(row: impl Into<String>, value: f64) -> Self {
        Self { row: row.into(), value, floor: None, ratio: None, spread: None, inside: None }
    }

    /// The medians over all rounds.
    pub(super) fn over(row: impl Into<String>, rounds: &Rounds) -> Self {
        Self {
            row: row.into(),
            value: rounds.value(),
            floor: rounds.floor(),
            ratio: rounds.ratio(),
            spread: rounds.spread(),
            inside: None,
        }
    }

    /// Of all rounds together, because what is rare may be missing in a round.
    pub(super) fn p99(row: impl Into<String>, ours: &Samples, floor: &Samples) -> Self {
        let value = ours.percentile(99.0);
        let floor = (floor.len() > 0).then(|| floor.percentile(99.0));
        let ratio = floor.map(|floor| value / floor);
        Self { floor, ratio, ..Self::plain(row, value) }
    }
}
