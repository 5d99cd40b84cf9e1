//! [`Plan`]: which rows are measured, and for how long.

use std::time::Duration;

use crate::{
    Result,
    args::Args,
    rows::{Measurement, RowSpec},
};

/// Which rows are measured, and for how long.
#[derive(Debug)]
pub(crate) struct Plan {
    quick: bool,
    rounds: u32,
    only: Vec<String>,
}

impl Plan {
    /// # Errors
    /// If a row is asked for that there is not.
    pub(crate) fn new(args: &Args, measurements: &[Box<dyn Measurement>]) -> Result<Self> {
        let store = args.store()?;
        let rows: Vec<RowSpec> =
            measurements.iter().flat_map(|measurement| measurement.rows(store)).collect();
        for asked in &args.only {
            if !rows.iter().any(|row| covers(asked, &row.name)) {
                let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
                return Err(format!("there is no row `{asked}`; there are {}", names.join(", ")).into());
            }
        }
        // Odd, so that the median is one that was measured.
        let rounds = args.rounds.unwrap_or(if args.quick { 9 } else { 27 });
        Ok(Self { quick: args.quick, rounds, only: args.only.clone() })
    }

    pub(crate) fn is_quick(&self) -> bool {
        self.quick
    }

    /// Whether a row, or one of a group of rows, is asked for.
    pub(crate) fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|asked| covers(asked, row) || covers(row, asked))
    }

    /// How often the floor and ours are measured in turn.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// How long the floor, and how long ours is measured in a round. Short and often, so that both find the machine in
    /// the same state, for example with client and server on the same core or on two.
    pub(crate) const ROUND: Duration = Duration::from_millis(200);
}

/// Whether `group` is the row, or a group that it belongs to.
fn covers(group: &str, row: &str) -> bool {
    row.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_covers_its_rows_and_no_other_group() {
        assert!(covers("pair", "pair.p50"));
        assert!(covers("pair.p50", "pair.p50"));
        assert!(!covers("handoff.1", "handoff.10.p50"));
        assert!(!covers("pair.p50", "pair"));
    }

    #[test]
    fn a_row_that_is_asked_for_is_wanted_as_is_the_group_it_is_measured_in() {
        let plan = Plan { quick: false, rounds: 1, only: vec!["handoff.10.p50".into()] };
        assert!(plan.wants("handoff.10.p50") && plan.wants("handoff.10"));
        assert!(!plan.wants("handoff.1") && !plan.wants("handoff.10.p99"));
    }
}
