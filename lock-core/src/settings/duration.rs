//! Durations as people write them in files and URLs: `30s`, `1m 30s`, `250ms`.
//!
//! For the options of a backend, so that they read like those of the library:
//!
//! ```
//! use std::time::Duration;
//!
//! #[derive(serde::Deserialize)]
//! struct Config {
//!     #[serde(with = "lock_core::settings::duration")]
//!     command_timeout: Duration,
//! }
//!
//! let config: Config = serde_json::from_str(r#"{ "command_timeout": "1m 30s" }"#)?;
//! assert_eq!(config.command_timeout, Duration::from_secs(90));
//! assert_eq!(lock_core::settings::duration::parse("250ms"), Some(Duration::from_millis(250)));
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::{fmt, ops::RangeInclusive, time::Duration};

use serde::{
    Deserializer, Serializer,
    de::{Error, Unexpected, Visitor},
};

use super::ConfigError;

/// What every timeout of a backend can be: 10 ms to 1 h.
pub const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60 * 60);

/// Reads a duration: numbers, each with its unit (`ns`, `us`, `ms`, `s`, `m`, `h`, `d`, `w`, `M`, `y`, or their names).
/// `None` if the text is not a duration, or too long for a [`Duration`].
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut sum = None;
    for span in spans(text) {
        // The exception for a zero without a unit is for it alone.
        let span = humantime::parse_duration(span).ok().filter(|_| span != "0")?;
        sum = Some(sum.unwrap_or(Duration::ZERO).checked_add(span)?);
    }
    sum
}

/// Reads the value of a setting.
///
/// # Errors
/// [`ConfigError::Setting`] if it is not a duration.
pub fn setting(option: &'static str, text: &str) -> Result<Duration, ConfigError> {
    let hint = "write a duration such as 500ms or 2s";
    parse(text).ok_or_else(|| ConfigError::Setting { option, given: text.to_owned(), hint })
}

/// Checks that a setting is in its range, such as [`TIMEOUTS`].
///
/// # Errors
/// [`ConfigError::Duration`] if it is not.
pub fn within(
    option: &'static str,
    given: Duration,
    range: &RangeInclusive<Duration>,
) -> Result<(), ConfigError> {
    if range.contains(&given) {
        return Ok(());
    }
    Err(ConfigError::Duration { option, given, least: *range.start(), most: *range.end() })
}

/// Each number with its unit. They are not left to `humantime` all at once, whose sum of them can overflow in a panic.
fn spans(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let mut behind_unit = false;
        let next = text.char_indices().find(|(_, c)| {
            let starts = behind_unit && c.is_ascii_digit();
            behind_unit = if c.is_whitespace() { behind_unit } else { c.is_alphabetic() };
            starts
        });
        let (span, rest) = text.split_at(next.map_or(text.len(), |(start, _)| start));
        text = rest;
        (!span.is_empty()).then_some(span)
    })
}

/// Writes a duration so that [`parse`] reads it back.
///
/// # Errors
/// Those of the format.
pub fn serialize<S: Serializer>(duration: &Duration, format: S) -> Result<S::Ok, S::Error> {
    format.collect_str(&humantime::format_duration(*duration))
}

/// Reads a duration from a text.
///
/// # Errors
/// Those of the format, and if it is not a text that [`parse`] can read.
pub fn deserialize<'de, D: Deserializer<'de>>(format: D) -> Result<Duration, D::Error> {
    format.deserialize_str(Text)
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 500ms or 1m 30s")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// The same for a duration that may be left out.
pub mod option {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes a duration, or that there is none.
    ///
    /// # Errors
    /// Those of the format.
    #[allow(clippy::ref_option, reason = "serde gives it like this")]
    pub fn serialize<S: Serializer>(duration: &Option<Duration>, format: S) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => format.serialize_some(&humantime::format_duration(*duration).to_string()),
            None => format.serialize_none(),
        }
    }

    /// Reads a duration, or that there is none.
    ///
    /// # Errors
    /// As without `option`.
    pub fn deserialize<'de, D: Deserializer<'de>>(format: D) -> Result<Option<Duration>, D::Error> {
        #[derive(Deserialize)]
        struct Given(#[serde(with = "super")] Duration);
        Ok(Option::<Given>::deserialize(format)?.map(|Given(duration)| duration))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_people_write_is_read() {
        let ms = |ms| Some(Duration::from_millis(ms));
        for (text, read) in [
            ("0", ms(0)),
            ("30s", ms(30_000)),
            ("1m 30s", ms(90_000)),
            ("1m30s", ms(90_000)),
            ("1.5s 250 ms", ms(1_750)),
            ("  2 hours\t", ms(7_200_000)),
            ("0s", ms(0)),
            ("30", None),
            ("5s 0", None),
            ("", None),
            (" ", None),
            ("-1s", None),
            ("1s,", None),
            ("1 fortnight", None),
            ("1e3s", None),
        ] {
            assert_eq!(parse(text), read, "{text:?}");
        }
    }

    /// The first of these is a panic in humantime 2.4.0.
    #[test]
    fn a_sum_that_is_too_long_is_no_duration_and_no_panic() {
        let most = u64::MAX;
        for text in [
            format!("{most}s 1000ms"),
            format!("{most}s 999ms 999us 1us"),
            format!("{most}y"),
            "1y ".repeat(1_000) + &format!("{most}s"),
            "9".repeat(1_000) + "s",
        ] {
            assert_eq!(parse(&text), None, "{}", &text[..40.min(text.len())]);
        }
        assert_eq!(parse(&format!("{most}s 999999999ns")), Some(Duration::MAX));
    }

    proptest! {
        #[test]
        fn every_duration_is_read_back_as_it_was_written(secs: u64, nanos in 0..1_000_000_000_u32) {
            let duration = Duration::new(secs, nanos);
            let written = humantime::format_duration(duration).to_string();
            prop_assert_eq!(parse(&written), Some(duration));
        }

        #[test]
        fn a_text_means_what_it_means_to_humantime(text in "([0-9]{1,3}(\\.[0-9])?[ ]?(ns|us|µs|ms|s|m|h|d|x|)[ ]?){0,4}") {
            prop_assert_eq!(parse(&text), humantime::parse_duration(&text).ok(), "{}", text);
        }
    }
}
