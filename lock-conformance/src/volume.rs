//! [`volume`]: how much of something tests do, in the gate and in the nightly run.

use std::env;

/// Selects the volume: `full`, or that of the gate if it is not set.
const VARIABLE: &str = "DISTLOCK_VOLUME";

/// How much of something a test does: in the `gate`, as little as shows the promise; with `DISTLOCK_VOLUME=full`, which the nightly run
/// sets, the `full` amount.
///
/// # Panics
/// If the variable has another value.
#[must_use]
pub fn volume<T>(gate: T, full: T) -> T {
    match env::var(VARIABLE).as_deref() {
        Err(env::VarError::NotPresent) => gate,
        Ok("full") => full,
        other => panic!("{VARIABLE} is `full` or is not set, not {other:?}"),
    }
}
