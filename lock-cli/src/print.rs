//! Writing on the standard output.

use std::{
    io::{ErrorKind, Write},
    time::Duration,
};

use serde::Serialize;

use crate::{exit::Exit, failure::Failure};

/// Writes a text, and has it written before it returns.
///
/// # Errors
/// If it cannot be written. That nobody reads it any more, as behind `head`, ends the command without a word.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::silent(Exit::DONE),
        _ => Failure::new(Exit::NO, "the standard output cannot be written").because(&error),
    })
}

/// Writes something as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    // What is written here has text for keys, and nothing that can fail.
    let line =
        serde_json::to_string(value).map_err(|error| Failure::new(Exit::NO, "no JSON").because(&error))?;
    text(&format!("{line}\n"))
}

/// Lines whose columns stand below each other. What is behind the last column is not padded.
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

/// What somebody else has written, without what could play tricks on a terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = escaped.is_none().then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// A duration for people: to the tenth of a second below a minute, to the second above.
pub(crate) fn duration(duration: Duration) -> String {
    if duration < Duration::from_secs(60) {
        format!("{:.1}s", duration.as_secs_f64())
    } else {
        humantime::format_duration(Duration::from_secs(duration.as_secs())).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_write_on_the_terminal() {
        assert_eq!(harmless("web\u{1b}[2J\r\n-1 ä"), "web\\u{1b}[2J\\r\\n-1 ä");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let line = |a: &str, b: &str, c: &str| vec![a.to_owned(), b.to_owned(), c.to_owned()];
        assert_eq!(table(&[line("a", "ää", ""), line("bbb", "c", "d")]), "a    ää\nbbb  c   d\n");
    }
}
