//! Values as text: JSON, tables and durations.

use std::time::Duration;

use distlock::escape_unprintable;
use serde::Serialize;

/// A value as one line of JSON.
///
/// # Errors
/// None for the types of this program, whose keys are all text.
pub(crate) fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(printable_json(&serde_json::to_string(value)?))
}

/// The same JSON, in which every unprintable character is escaped.
fn printable_json(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    for c in json.chars() {
        let mut units = [0; 2];
        // Control characters of ASCII are escaped in JSON already.
        if c.is_ascii() || escape_unprintable(c.encode_utf8(&mut [0; 4])).len() == c.len_utf8() {
            line.push(c);
        } else {
            line.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    line
}

/// Lines with aligned columns. The last column is not padded.
pub(crate) fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| lines.iter().filter_map(|line| line.get(i)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|i| width(i).unwrap_or(0)).collect();
    let mut table = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

/// A duration for people: in milliseconds below a second, to the tenth of a second below a minute, to the second above.
pub(crate) fn duration(duration: Duration) -> String {
    if duration.is_zero() {
        "0s".to_owned()
    } else if duration < Duration::from_secs(1) {
        format!("{}ms", duration.as_millis().max(1))
    } else if duration < Duration::from_secs(60) {
        format!("{:.1}s", duration.as_secs_f64())
    } else {
        humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_the_same_and_plays_no_tricks_on_a_terminal() {
        let label = "web\u{1b}[2J\u{9b}\u{202e}1 ä \u{e0041}";
        let line = printable_json(&serde_json::to_string(label).unwrap());
        assert_eq!(line, r#""web\u001b[2J\u009b\u202e1 ä \udb40\udc41""#);
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), label);
    }

    #[test]
    fn a_duration_says_something_however_short_it_is() {
        for (ms, said) in [(0, "0s"), (200, "200ms"), (1_000, "1.0s"), (8_040, "8.0s"), (90_700, "1m 30s")] {
            assert_eq!(duration(Duration::from_millis(ms)), said);
        }
        assert_eq!(duration(Duration::from_nanos(1)), "1ms");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let line = |a: &str, b: &str, c: &str| vec![a.to_owned(), b.to_owned(), c.to_owned()];
        assert_eq!(table(&[line("a", "ää", ""), line("bbb", "c", "d")]), "a    ää\nbbb  c   d\n");
    }
}
