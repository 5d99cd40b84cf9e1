//! [`Samples`]: latencies, and [`Rounds`], one figure over all rounds.

use std::time::Duration;

/// Latencies in nanoseconds, in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(pub(crate) Vec<u64>);

impl Samples {
    pub(crate) fn record(&mut self, latency: Duration) {
        // 584 years fit.
        self.0.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The latency in microseconds that so many percent do not exceed. Not a number without latencies.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        self.distribution(&[percent]).first().map_or(f64::NAN, |&(_, latency)| latency)
    }

    /// For each percent, the latency in microseconds that so many percent do not exceed. Empty without latencies.
    pub(crate) fn distribution(&self, percents: &[f64]) -> Vec<(f64, f64)> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
        let at = |percent: f64| {
            let place = (percent / 100.0 * last as f64).round();
            #[allow(clippy::cast_sign_loss, reason = "percents are not negative")]
            let value = sorted[(place as usize).min(last)];
            (percent, value as f64 / 1000.0)
        };
        percents.iter().copied().map(at).collect()
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<I: IntoIterator<Item = Duration>>(latencies: I) -> Self {
        let mut samples = Self::default();
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
    fn percentiles_are_in_microseconds_and_none_without_latencies() {
        let samples: Samples = (0..=100).rev().map(Duration::from_micros).collect();
        assert_eq!(samples.distribution(&[0.0, 50.0, 100.0]), [(0.0, 0.0), (50.0, 50.0), (100.0, 100.0)]);
        assert!((samples.percentile(99.0) - 99.0).abs() < 0.1);
        let none = Samples::default();
        assert!(none.distribution(&[50.0]).is_empty() && none.percentile(50.0).is_nan());
    }
}
