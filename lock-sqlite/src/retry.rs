//! Waits while other connections write.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::error::Failure;

/// Repeats `work` until the database is not busy, or the time is over. SQLite's own wait sleeps for up to 100 ms at a time.
///
/// # Errors
/// The errors of `work`.
pub(crate) fn while_busy<T>(
    give_up: Instant,
    mut work: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    const YIELDS: u32 = 8;
    const LONGEST: Duration = Duration::from_millis(1);
    let mut pause = Duration::from_micros(20);
    for tries in 0.. {
        match work() {
            Err(failure) if failure.is_busy() && Instant::now() < give_up => {}
            done => return done,
        }
        if tries < YIELDS {
            thread::yield_now();
        } else {
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
    }
    unreachable!("it is tried without an end")
}
