//! [`Samples`]: latencies; and [`median`].

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
    fn percentiles_are_in_microseconds_and_none_without_latencies() {
        let samples: Samples = (0..=100).rev().map(Duration::from_micros).collect();
        assert_eq!(samples.distribution(&[0.0, 50.0, 100.0]), [(0.0, 0.0), (50.0, 50.0), (100.0, 100.0)]);
        assert!((samples.percentile(99.0) - 99.0).abs() < 0.1);
        let none = Samples::default();
        assert!(none.distribution(&[50.0]).is_empty() && none.percentile(50.0).is_nan());
    }
}
