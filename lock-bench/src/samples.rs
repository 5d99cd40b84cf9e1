//! [`Samples`], the latencies of one round, and [`Rounds`], one figure over all rounds.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies, to three digits.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Histogram<u64>);

const LONGEST: Duration = Duration::from_secs(600);

impl Samples {
    pub(crate) fn new() -> Self {
        let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
        Self(
            Histogram::new_with_bounds(1, longest, 3)
                .expect("these bounds are in order, with a digit to spare"),
        )
    }

    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len()
    }

    /// All latencies, to three digits, the shortest first.
    pub(crate) fn nanoseconds(&self) -> Vec<u64> {
        let each = |value: hdrhistogram::iterators::IterationValue<u64>| {
            std::iter::repeat_n(value.value_iterated_to(), value.count_at_value() as usize)
        };
        self.0.iter_recorded().flat_map(each).collect()
    }

    /// The latency in microseconds that so many percent do not exceed.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        self.0.value_at_percentile(percent) as f64 / 1000.0
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<I: IntoIterator<Item = Duration>>(latencies: I) -> Self {
        let mut samples = Self::new();
        latencies.into_iter().for_each(|latency| samples.record(latency));
        samples
    }
}

/// One figure, measured in several rounds, each with its floor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds(Vec<Round>);

#[derive(Clone, Copy, Debug)]
struct Round {
    ours: f64,
    floor: Option<f64>,
}

impl Rounds {
    pub(crate) fn push(&mut self, ours: f64, floor: Option<f64>) {
        self.0.push(Round { ours, floor });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The median. Not a number without rounds.
    pub(crate) fn value(&self) -> f64 {
        median(self.ours()).unwrap_or(f64::NAN)
    }

    pub(crate) fn floor(&self) -> Option<f64> {
        median(self.0.iter().filter_map(|round| round.floor).collect())
    }

    /// The median of the ratios within the rounds: what slows the machine down for a while slows both down.
    pub(crate) fn ratio(&self) -> Option<f64> {
        median(self.ratios())
    }

    /// The least and the largest ratio of the rounds, or value where there is no floor, without the outermost tenth of the
    /// rounds on either side. `None` without rounds.
    pub(crate) fn spread(&self) -> Option<(f64, f64)> {
        let ratios = self.ratios();
        let mut of = if ratios.is_empty() { self.ours() } else { ratios };
        of.sort_by(f64::total_cmp);
        let outermost = of.len() / 10;
        Some((*of.get(outermost)?, *of.get(of.len() - 1 - outermost)?))
    }

    fn ratios(&self) -> Vec<f64> {
        self.0.iter().filter_map(|round| Some(round.ours / round.floor?)).collect()
    }

    fn ours(&self) -> Vec<f64> {
        self.0.iter().map(|round| round.ours).collect()
    }
}

/// `None` without values.
pub(crate) fn median(mut of: Vec<f64>) -> Option<f64> {
    of.sort_by(f64::total_cmp);
    let middle = of.len() / 2;
    match of.len() {
        0 => None,
        n if n % 2 == 1 => Some(of[middle]),
        _ => Some(f64::midpoint(of[middle - 1], of[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_those_within_the_rounds() {
        let mut rounds = Rounds::default();
        // The second round was slow, and so was its floor.
        for (ours, floor) in [(11.0, 10.0), (120.0, 100.0), (12.0, 8.0)] {
            rounds.push(ours, Some(floor));
        }
        assert_eq!(rounds.ratio(), Some(1.2));
        assert_eq!((rounds.value(), rounds.floor()), (12.0, Some(10.0)));
        assert_eq!(rounds.spread(), Some((1.1, 1.5)));
    }

    #[test]
    fn without_a_floor_there_is_no_ratio_and_the_spread_is_that_of_the_values() {
        let mut rounds = Rounds::default();
        rounds.push(3.0, None);
        rounds.push(1.0, None);
        assert_eq!((rounds.ratio(), rounds.floor(), rounds.value()), (None, None, 2.0));
        assert_eq!(rounds.spread(), Some((1.0, 3.0)));
        assert_eq!(Rounds::default().spread(), None);
    }

    #[test]
    fn the_spread_leaves_out_the_outermost_tenth_on_either_side() {
        let mut rounds = Rounds::default();
        (1..=20).for_each(|value| rounds.push(f64::from(value), None));
        assert_eq!(rounds.spread(), Some((3.0, 18.0)));
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let samples: Samples = (1..=100).map(Duration::from_micros).collect();
        assert!((samples.percentile(50.0) - 50.0).abs() < 0.1);
        assert!((samples.percentile(99.0) - 99.0).abs() < 0.1);
    }
}
