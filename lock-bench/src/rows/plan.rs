//! [`Plan`]: which rows are measured, and for how long.

use std::time::Duration;

use super::row_spec::RowSpec;
use crate::{args::Args, error::Result};

/// Which rows are measured, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    quick: bool,
    rounds: u32,
    only: Vec<String>,
}

impl Plan {
    /// # Errors
    /// If a row is asked for that does not exist.
    pub(crate) fn new(args: &Args, rows: &[RowSpec]) -> Result<Self> {
        for asked in &args.only {
            if !rows.iter().any(|row| covers(asked, &row.name)) {
                let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
                return Err(format!("there is no row `{asked}`; there are {}", names.join(", ")).into());
            }
        }
        // Odd, so that the median is a value that was measured.
        let rounds = args.rounds.unwrap_or(if args.quick { 9 } else { 27 });
        Ok(Self { quick: args.quick, rounds, only: args.only.clone() })
    }

    pub(crate) fn is_quick(&self) -> bool {
        self.quick
    }

    /// Whether a row, or a row of a group, is asked for.
    pub(crate) fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|asked| covers(asked, row) || covers(row, asked))
    }

    /// How often the floor and our locks are measured in turn.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    /// How long the floor, and how long our locks are measured in a round. Rounds are short and many, so that both are measured
    /// in the same state of the machine, for example with client and server on one core or on two.
    pub(crate) const ROUND: Duration = Duration::from_millis(200);

    /// The same where CPU time is measured, which the kernel counts in steps of 10 ms.
    pub(crate) const LONG_ROUND: Duration = Duration::from_millis(500);
}

/// Whether `group` is the row, or a group of which it is part.
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
