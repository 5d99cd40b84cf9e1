//! [`rows`]: the scenarios in which the systems take turns, round after round.

use super::{
    args::CompareArgs,
    results::{Figures, ScenarioResult},
    scenario::Scenario,
    store_run::StoreRun,
    turn::TurnResult,
};
use crate::samples::Samples;

/// One row for each system that is asked for.
pub(crate) async fn rows(
    run: &mut StoreRun<'_>,
    args: &CompareArgs,
    scenario: &Scenario,
) -> Vec<ScenarioResult> {
    let (size, rounds) = (run.participants.len(), run.schedule.rounds);
    let mut rows: Vec<_> =
        run.participants.iter().map(|participant| participant.row(args, scenario)).collect();
    let mut latencies = vec![Samples::default(); size];
    for round in 0..=rounds {
        eprintln!("{}: {}, round {round} of {rounds}", run.store, scenario.name);
        let mut figures: Vec<Option<Figures>> = vec![None; size];
        for place in 0..size {
            // In each round another system is first.
            let i = (place + round) % size;
            let Some(row) = rows[i].as_mut().filter(|row| row.failed.is_none()) else { continue };
            match run.turn(i, scenario.work, &format!("{}-{}-{round}", row.system, row.scenario)).await {
                // The first round is a warm-up: it is checked, but does not count.
                Ok(done) => figures[i] = take(done, row, &mut latencies[i], round > 0),
                Err(error) => {
                    eprintln!("{}: {} failed in {}: {error}", run.store, row.system, row.scenario);
                    row.failed = Some(error.to_string());
                    run.participants[i].stop();
                }
            }
        }
        if round > 0 {
            compare_to_floor(&mut rows, &figures);
        }
    }
    for (row, latencies) in rows.iter_mut().zip(&latencies) {
        if let Some(row) = row {
            row.distribution = latencies.distribution(&PERCENTS);
        }
    }
    rows.into_iter().flatten().collect()
}

/// The percents of a distribution.
const PERCENTS: [f64; 13] = [0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9];

fn take(
    turn: TurnResult,
    row: &mut ScenarioResult,
    latencies: &mut Samples,
    counts: bool,
) -> Option<Figures> {
    turn.marks.into_iter().for_each(|mark| row.mark(mark));
    counts.then(|| {
        latencies.add(&turn.latencies);
        turn.figures
    })
}

/// Compares within a round: what slows the machine down for a while slows both down.
fn compare_to_floor(rows: &mut [Option<ScenarioResult>], round: &[Option<Figures>]) {
    let is_floor = |row: &Option<ScenarioResult>| row.as_ref().is_some_and(ScenarioResult::is_floor);
    let floor = rows.iter().position(is_floor).and_then(|floor| round[floor].clone());
    for (row, figures) in rows.iter_mut().zip(round) {
        let (Some(row), Some(figures)) = (row, figures) else { continue };
        row.rounds.push(figures.clone());
        if let Some(floor) = floor.as_ref().filter(|_| !row.is_floor()) {
            let ratio = |(name, value): (&String, &f64)| {
                floor.get(name).filter(|floor| **floor > 0.0).map(|floor| (name.clone(), value / floor))
            };
            row.ratios.push(figures.iter().filter_map(ratio).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::results::{Results, Spread};

    fn row(system: &str) -> Option<ScenarioResult> {
        let mut systems = Results::systems("redis");
        systems.find(|one| one.name == system).map(|system| ScenarioResult::new(system, "pair"))
    }

    fn figures(value: f64) -> Figures {
        Figures::from([("p50_us".to_owned(), value)])
    }

    #[test]
    fn a_ratio_is_that_to_the_floor_of_the_same_round() {
        let mut rows = vec![row("floor"), row("distlock"), row("rslock")];
        compare_to_floor(&mut rows, &[Some(figures(10.0)), Some(figures(20.0)), None]);
        compare_to_floor(&mut rows, &[100.0, 300.0, 100.0].map(|value| Some(figures(value))));
        let ratio = |row: &Option<ScenarioResult>| row.as_ref().unwrap().ratio("p50_us");
        assert_eq!(ratio(&rows[1]), Some(Spread { median: 2.5, least: 2.0, largest: 3.0 }));
        assert_eq!(ratio(&rows[2]), Some(Spread { median: 1.0, least: 1.0, largest: 1.0 }));
        assert_eq!(ratio(&rows[0]), None);
    }
}
