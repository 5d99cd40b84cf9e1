//! [`Verdict`]: what came of a run.

use std::{collections::BTreeMap, fmt};

use crate::error::Result;

/// So many grants there are at least in a minute, however much goes wrong.
const GRANTS: u64 = 20;

/// What happened, and what should not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) grants: u64,
    pub(crate) losses: u64,
    /// How many grants may have ended before their deadlines, by what was done to the store, or were over when they were noted.
    pub(crate) excused: u64,
    /// How often each kind of fault was carried out.
    pub(crate) faults: BTreeMap<&'static str, usize>,
    pub(crate) findings: Vec<String>,
}

impl Verdict {
    /// A run in which nothing happened shows nothing.
    ///
    /// # Errors
    /// If there were too few grants, or no fault.
    pub(crate) fn of_enough(self, minutes: u64) -> Result<Self> {
        if self.findings.is_empty() && self.grants < GRANTS * minutes {
            return Err(format!("only {} locks were granted in {minutes} minutes", self.grants).into());
        }
        if self.faults.is_empty() {
            return Err("no fault was carried out".into());
        }
        Ok(self)
    }
}

/// The last cells of a row of the table: grants, losses, faults by kind with the grants that they excuse, and the result.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: Vec<_> = self.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let result = match self.findings.len() {
            0 => "no finding".to_owned(),
            1 => "**1 finding**".to_owned(),
            more => format!("**{more} findings**"),
        };
        let excused = match self.excused {
            0 => String::new(),
            some => format!("; excused {some}"),
        };
        write!(f, "{} | {} | {}{excused} | {result}", self.grants, self.losses, faults.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(grants: u64, faults: &[(&'static str, usize)]) -> Verdict {
        let faults = faults.iter().copied().collect();
        Verdict { grants, losses: 3, excused: 0, faults, findings: Vec::new() }
    }

    #[test]
    fn a_run_in_which_nothing_happened_is_an_error() {
        assert!(verdict(200, &[("kill", 1)]).of_enough(10).is_ok());
        assert!(verdict(199, &[("kill", 1)]).of_enough(10).is_err());
        assert!(verdict(200, &[]).of_enough(10).is_err());
    }

    #[test]
    fn a_row_says_how_much_went_wrong_and_what_was_found() {
        let mut verdict = verdict(200, &[("pause", 2), ("kill", 1)]);
        assert_eq!(verdict.to_string(), "200 | 3 | kill 1, pause 2 | no finding");
        verdict.findings.push("two held it".to_owned());
        verdict.excused = 4;
        assert_eq!(verdict.to_string(), "200 | 3 | kill 1, pause 2; excused 4 | **1 finding**");
    }
}
