//! [`Results`]: the raw data of a report, as they are kept in `report.json`.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    scenario::SCENARIOS,
    systems::{NOT_INSTALLED, STORES, SYSTEMS, SystemSpec},
};
use crate::{drivers::FLOOR, error::Result, samples::median};

/// All rows, and the descriptions of their servers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    /// For each store, its description and the date of the last run.
    pub(crate) stores: BTreeMap<String, String>,
    pub(crate) rows: Vec<ScenarioResult>,
}

/// A row: one scenario of one system.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ScenarioResult {
    pub(crate) store: String,
    pub(crate) system: String,
    pub(crate) scenario: String,
    /// The version of the library.
    pub(crate) version: String,
    /// The figures of each round.
    pub(crate) rounds: Vec<Figures>,
    /// The figures as multiples of those of the floor in the same round, where the floor has them.
    pub(crate) ratios: Vec<Figures>,
    /// Percents, each with the latency in microseconds that so many percent did not exceed.
    pub(crate) distribution: Vec<(f64, f64)>,
    /// What was wrong: overlaps, locks that were lost.
    pub(crate) marks: Vec<String>,
    /// Why there are no figures, or no figures of later rounds.
    pub(crate) failed: Option<String>,
}

/// Figures by name, for example `p50_us` and `per_s`.
pub(crate) type Figures = BTreeMap<String, f64>;

impl Results {
    /// The report in the folder. Empty if there is none.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("report.json");
        match fs::read(&path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)
                .map_err(|error| format!("{}: {error}; remove it, or write elsewhere", path.display()))?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", path.display()).into()),
        }
    }

    /// Adds a row, in place of an earlier one of the same system and scenario.
    pub(crate) fn put(&mut self, row: ScenarioResult) {
        self.rows.retain(|other| other.place() != row.place());
        self.rows.push(row);
        self.rows.sort_by_key(ScenarioResult::place);
    }

    pub(crate) fn find(&self, store: &str, system: &str, scenario: &str) -> Option<&ScenarioResult> {
        self.rows.iter().find(|row| (&*row.store, &*row.system, &*row.scenario) == (store, system, scenario))
    }

    /// The stores that have rows, in order.
    pub(crate) fn stores(&self) -> impl Iterator<Item = &'static str> {
        STORES.into_iter().filter(|store| self.rows.iter().any(|row| row.store == *store))
    }

    /// The systems of a store, whether they were run or not, the floor first.
    pub(crate) fn systems(store: &str) -> impl Iterator<Item = &'static SystemSpec> {
        SYSTEMS.iter().filter(move |system| system.store == store)
    }

    /// The version that was measured. `None` if the system was not run.
    pub(crate) fn version(&self, store: &str, system: &str) -> Option<&str> {
        let of_it = self.rows.iter().filter(|row| row.store == store && row.system == system);
        of_it.map(|row| &*row.version).find(|version| !version.is_empty())
    }

    /// What was wrong with a system: marks and reasons of failures, each with its scenarios.
    pub(crate) fn problems(&self, store: &str, system: &str) -> Vec<(String, Vec<&str>)> {
        let mut problems: Vec<(String, Vec<&str>)> = Vec::new();
        for row in self.rows.iter().filter(|row| row.store == store && row.system == system) {
            for problem in row.marks.iter().chain(&row.failed) {
                match problems.iter_mut().find(|(known, _)| known == problem) {
                    Some((_, scenarios)) => scenarios.push(&row.scenario),
                    None => problems.push((problem.clone(), vec![&row.scenario])),
                }
            }
        }
        problems
    }
}

impl ScenarioResult {
    pub(crate) fn new(system: &SystemSpec, scenario: &str) -> Self {
        Self {
            store: system.store.to_owned(),
            system: system.name.to_owned(),
            scenario: scenario.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn mark(&mut self, mark: impl Into<String>) {
        let mark = mark.into();
        if !self.marks.contains(&mark) {
            self.marks.push(mark);
        }
    }

    /// What is written in place of a missing figure, if there is a reason.
    pub(crate) fn absence(&self) -> Option<&'static str> {
        let reason = self.failed.as_ref()?;
        Some(if reason.starts_with(NOT_INSTALLED) { "missing" } else { "failed" })
    }

    pub(crate) fn is_floor(&self) -> bool {
        self.system == FLOOR
    }

    /// The median of the rounds.
    pub(crate) fn figure(&self, name: &str) -> Option<f64> {
        self.spread(name).map(|spread| spread.median)
    }

    /// A figure over all rounds.
    pub(crate) fn spread(&self, name: &str) -> Option<Spread> {
        Spread::of(&self.rounds, name)
    }

    /// The ratios of a figure to the floor's, over all rounds.
    pub(crate) fn ratio(&self, name: &str) -> Option<Spread> {
        Spread::of(&self.ratios, name)
    }

    /// The order of rows.
    fn place(&self) -> (usize, usize, usize, String) {
        let store = STORES.iter().position(|store| *store == self.store);
        let of_system = |system: &SystemSpec| (system.store, system.name) == (&*self.store, &*self.system);
        let system = SYSTEMS.iter().position(of_system);
        let scenario = SCENARIOS.iter().position(|scenario| scenario.name == self.scenario);
        let last = usize::MAX;
        // Names that this version does not know are kept, at the end.
        let name = format!("{}/{}/{}", self.store, self.system, self.scenario);
        (store.unwrap_or(last), scenario.unwrap_or(last), system.unwrap_or(last), name)
    }
}

/// A figure, or a ratio, over several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) largest: f64,
}

impl Spread {
    /// `None` if no round has the figure.
    fn of(rounds: &[Figures], name: &str) -> Option<Self> {
        let mut all: Vec<f64> = rounds.iter().filter_map(|round| round.get(name).copied()).collect();
        all.sort_by(f64::total_cmp);
        let (least, largest) = (*all.first()?, *all.last()?);
        Some(Self { median: median(all)?, least, largest })
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.least <= other.largest && other.least <= self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(system: &str, scenario: &str, value: f64) -> ScenarioResult {
        let system = Results::systems("redis").find(|one| one.name == system).unwrap();
        let mut row = ScenarioResult::new(system, scenario);
        row.rounds.push(Figures::from([("p50_us".to_owned(), value)]));
        row
    }

    #[test]
    fn a_later_run_replaces_what_it_measured_and_keeps_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::read(folder.path()).unwrap();
        results.put(row("distlock", "pair", 2.0));
        results.put(row("floor", "pair", 1.0));
        fs::write(folder.path().join("report.json"), serde_json::to_vec(&results).unwrap()).unwrap();

        let mut results = Results::read(folder.path()).unwrap();
        results.put(row("distlock", "pair", 3.0));
        let found = |system| results.find("redis", system, "pair").unwrap().figure("p50_us");
        assert_eq!((found("distlock"), found("floor")), (Some(3.0), Some(1.0)));
        assert_eq!(results.rows.len(), 2);
        assert!(results.rows[0].is_floor());
    }

    #[test]
    fn a_report_that_cannot_be_read_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("report.json"), "{").unwrap();
        assert!(Results::read(folder.path()).unwrap_err().to_string().contains("remove it"));
    }
}
