//! [`EntryRow`]: a row of the table `entries`.

use lock_core::{Claim, EntryId, Kind, shown_label};
use rusqlite::types::ValueRef;

use crate::error::Failure;

/// An entry as it is stored in the file.
#[derive(Clone, Debug)]
pub(crate) struct EntryRow {
    pub(crate) token: i64,
    pub(crate) entry: EntryId,
    pub(crate) claim: Claim,
    pub(crate) expires: i64,
    pub(crate) admitted: bool,
    pub(crate) member: i64,
    pub(crate) label: Option<String>,
}

impl EntryRow {
    /// # Errors
    /// If this library did not write the row, or an error of SQLite.
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<Self, Failure> {
        Ok(Self {
            token: row.get(0)?,
            entry: text(row, 1)?.parse().map_err(|_| Failure::Damaged("an entry id"))?,
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

/// The claim whose kind is in this column, and whose numbers are in the next two.
///
/// # Errors
/// If there is no claim, or an error of SQLite.
pub(crate) fn read_claim(row: &rusqlite::Row<'_>, column: usize) -> Result<Claim, Failure> {
    let (permits, limit) = (row.get(column + 1)?, row.get(column + 2)?);
    let kind = Kind::from_word(text(row, column)?);
    kind.and_then(|kind| Claim::from_parts(kind, permits, limit)).ok_or(Failure::Damaged("a claim"))
}
