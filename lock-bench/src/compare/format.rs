//! How figures and names are written in a report.

use super::results::Spread;

/// A figure with three digits.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v > 0.0 => format!("{value:.2}"),
        _ => "0".to_owned(),
    }
}

/// `1.4 × (1.2–1.6)`: the median of ratios, with the least and the largest.
pub(crate) fn ratio(spread: Spread) -> String {
    let Spread { median, least, largest } = spread;
    format!("{} × ({}–{})", digits(median), digits(least), digits(largest))
}

/// The name of a store in a heading.
pub(crate) fn store_title(store: &str) -> &str {
    match store {
        "redis" => "Redis",
        "zk" => "ZooKeeper",
        "sqlite" => "SQLite",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_shown() {
        assert_eq!(
            [0.0, 0.123, 9.99, 12.34, 99.9, 1234.5].map(digits),
            ["0", "0.12", "9.99", "12.3", "99.9", "1234"]
        );
    }
}
