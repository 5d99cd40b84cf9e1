//! Random numbers, for unique names.

use std::io;

/// A positive number that no other process draws.
pub(crate) fn number() -> io::Result<i64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(i64::from_le_bytes(bytes) & i64::MAX)
}
