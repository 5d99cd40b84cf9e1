//! [`RowSpec`]: a row of the table, and [`Bound`]: what it must keep.

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
