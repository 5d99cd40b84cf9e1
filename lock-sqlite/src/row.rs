//! [`Row`]: an entry as it stands in the file.

use lock_core::{BackendError, BackendErrorKind, Claim, EntryId, Kind, shown_label};
use rusqlite::types::ValueRef;

use crate::error::{Fault, STORE};

/// An entry as it stands in the file.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) token: i64,
    pub(crate) entry: EntryId,
    pub(crate) claim: Claim,
    pub(crate) expires: i64,
    pub(crate) admitted: bool,
    pub(crate) member: i64,
    pub(crate) label: Option<String>,
}

impl Row {
    /// # Errors
    /// If it is none that this library wrote, or those of SQLite.
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<Self, Fault> {
        Ok(Self {
            token: row.get(0)?,
            entry: text(row, 1)?.parse().map_err(|_| damaged("an entry id"))?,
            claim: read_claim(row, 2)?,
            expires: row.get(5)?,
            admitted: row.get(6)?,
            member: row.get(7)?,
            label: row.get_ref(8)?.as_bytes_or_null().unwrap_or_default().map(shown_label),
        })
    }
}

fn text<'a>(row: &'a rusqlite::Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    match row.get_ref(column)? {
        ValueRef::Text(text) => Ok(std::str::from_utf8(text).unwrap_or_default()),
        _ => Ok(""),
    }
}

/// Its kind stands in this column, and its numbers in the next two.
///
/// # Errors
/// If there is none, or those of SQLite.
pub(crate) fn read_claim(row: &rusqlite::Row<'_>, column: usize) -> Result<Claim, Fault> {
    let (permits, limit) = (row.get(column + 1)?, row.get(column + 2)?);
    let kind = Kind::from_word(text(row, column)?);
    kind.and_then(|kind| Claim::from_parts(kind, permits, limit)).ok_or_else(|| damaged("a claim"))
}

/// What is said of something in the file that nobody has written who uses it as this library does.
pub(crate) fn damaged(what: &str) -> Fault {
    let message = format!("{what} in the file is none that this library wrote; see what else writes to it");
    Fault::Refused(BackendError::new(STORE, BackendErrorKind::Protocol, message).advised())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_about_a_damaged_row_is_said_once() {
        let Fault::Refused(error) = damaged("a claim") else { panic!("it is refused") };
        let said = "a claim in the file is none that this library wrote; see what else writes to it";
        let explained = error.explained().to_string();
        assert_eq!(explained, format!("the answer of the store was not understood (sqlite: {said})"));
    }
}
