//! [`volume`]: how much of a thing the gate does, and how much the nightly run.

use std::env;

/// Names how much is done: `full`, or what the gate does if it is not set.
const VARIABLE: &str = "DISTLOCK_VOLUME";

/// How much of something a test does: as much as shows the promise, in the gate, or the `full` amount where
/// `DISTLOCK_VOLUME=full` asks for it, as the nightly run does.
///
/// # Panics
/// If the variable says something else.
#[must_use]
pub fn volume<T>(gate: T, full: T) -> T {
    match env::var(VARIABLE).as_deref() {
        Err(env::VarError::NotPresent) => gate,
        Ok("full") => full,
        other => panic!("{VARIABLE} is `full` or is not set, not {other:?}"),
    }
}
