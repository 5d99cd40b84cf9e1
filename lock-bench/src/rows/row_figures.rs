//! [`RowFigures`]: what was measured for rows, and [`Figure`]: what is reported of it for one row.

use std::collections::BTreeMap;

use crate::samples::{Samples, median};

/// What was measured, by the names of the rows.
#[derive(Debug, Default)]
pub(crate) struct RowFigures {
    /// A value for each round, with its floor.
    rounds: BTreeMap<String, Vec<(f64, Option<f64>)>>,
    /// The latencies of all rounds together, and those of their floor.
    pooled: BTreeMap<String, (Samples, Samples)>,
}

/// A row that was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) floor: Option<f64>,
    pub(crate) ratio: Option<f64>,
    /// The least and the largest of the rounds: of their ratios, or of their values where there is no floor. Without the outermost
    /// tenth of the rounds on either side. `None` if there is one round, or none.
    pub(crate) spread: Option<(f64, f64)>,
}

impl RowFigures {
    /// A value of one round. The medians of all rounds are reported.
    pub(super) fn value(&mut self, row: impl Into<String>, ours: f64, floor: Option<f64>) {
        self.rounds.entry(row.into()).or_default().push((ours, floor));
    }

    /// The latencies of one round, for two rows of a group. The p50 is that of each round. The p99 is that of all rounds together,
    /// because what is rare may be missing in a round.
    pub(super) fn latencies(&mut self, group: &str, ours: &Samples, floor: Option<&Samples>) {
        let floor = floor.filter(|floor| floor.len() > 0);
        self.value(format!("{group}.p50"), ours.percentile(50.0), floor.map(|floor| floor.percentile(50.0)));
        let (all_ours, all_floors) = self.pooled.entry(format!("{group}.p99")).or_default();
        all_ours.add(ours);
        if let Some(floor) = floor {
            all_floors.add(floor);
        }
    }

    /// `None` if nothing was measured for the row.
    pub(crate) fn find(&self, row: &str) -> Option<Figure> {
        if let Some((ours, floor)) = self.pooled.get(row) {
            let floor = (floor.len() > 0).then(|| floor.percentile(99.0));
            return Figure::over(&[(ours.percentile(99.0), floor)]);
        }
        Figure::over(self.rounds.get(row)?)
    }
}

impl Figure {
    /// `None` without rounds.
    fn over(rounds: &[(f64, Option<f64>)]) -> Option<Self> {
        let ours: Vec<f64> = rounds.iter().map(|round| round.0).collect();
        let floors = rounds.iter().filter_map(|round| round.1).collect();
        // Within a round: what slows the machine down for a while slows both down.
        let ratios: Vec<f64> = rounds.iter().filter_map(|round| Some(round.0 / round.1?)).collect();
        let spread = spread(if ratios.is_empty() { ours.clone() } else { ratios.clone() });
        Some(Self { value: median(ours)?, floor: median(floors), ratio: median(ratios), spread })
    }
}

fn spread(mut of: Vec<f64>) -> Option<(f64, f64)> {
    of.sort_by(f64::total_cmp);
    let outermost = of.len() / 10;
    (of.len() > 1).then(|| (of[outermost], of[of.len() - 1 - outermost]))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn figure(rounds: &[(f64, Option<f64>)]) -> Figure {
        let mut figures = RowFigures::default();
        for &(ours, floor) in rounds {
            figures.value("pair.p50", ours, floor);
        }
        figures.find("pair.p50").unwrap()
    }

    #[test]
    fn a_ratio_is_the_median_of_those_within_the_rounds() {
        // The second round was slow, and so was its floor.
        let figure = figure(&[(11.0, Some(10.0)), (120.0, Some(100.0)), (12.0, Some(8.0))]);
        assert_eq!((figure.ratio, figure.value, figure.floor), (Some(1.2), 12.0, Some(10.0)));
        assert_eq!(figure.spread, Some((1.1, 1.5)));
    }

    #[test]
    fn without_a_floor_there_is_no_ratio_and_the_spread_is_that_of_the_values() {
        let several = figure(&[(3.0, None), (1.0, None)]);
        assert_eq!((several.ratio, several.floor, several.value), (None, None, 2.0));
        assert_eq!(several.spread, Some((1.0, 3.0)));
        assert_eq!(figure(&[(3.0, None)]).spread, None);
        assert!(RowFigures::default().find("pair.p50").is_none());
    }

    #[test]
    fn the_spread_leaves_out_the_outermost_tenth_on_either_side() {
        let rounds: Vec<_> = (1..=20).map(|value| (f64::from(value), None)).collect();
        assert_eq!(figure(&rounds).spread, Some((3.0, 18.0)));
    }

    #[test]
    fn a_p99_is_that_of_all_rounds_together_and_a_p50_the_median_of_theirs() {
        let all = |micros: u64| (0..100).map(|_| Duration::from_micros(micros)).collect::<Samples>();
        let mut figures = RowFigures::default();
        // Of 300 latencies, a hundred are long.
        for micros in [1, 1, 50] {
            figures.latencies("pair", &all(micros), Some(&all(2 * micros)));
        }
        let (p50, p99) = (figures.find("pair.p50").unwrap(), figures.find("pair.p99").unwrap());
        assert_eq!((p50.value, p50.floor, p50.ratio), (1.0, Some(2.0), Some(0.5)));
        assert_eq!((p99.value, p99.floor, p99.ratio, p99.spread), (50.0, Some(100.0), Some(0.5), None));
    }
}
