//! Random numbers, for names that nobody else has.

use std::io;

/// A positive number that nobody else draws.
pub(crate) fn number() -> io::Result<i64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(i64::from_le_bytes(bytes) & i64::MAX)
}
