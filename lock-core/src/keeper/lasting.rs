//! Work that goes on when it panics.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use crate::{telemetry, wakers::panic_text};

/// A panic that follows another so soon is the same: it comes whatever is done.
const MOMENT: Duration = Duration::from_secs(1);

/// Runs work until it is done. If it panics that is told, and it is run again.
///
/// # Errors
/// What it said last, if it panics again and again.
pub(super) fn keep_on(mut work: impl FnMut()) -> Result<(), String> {
    let mut last: Option<Instant> = None;
    loop {
        let Err(panic) = catch_unwind(AssertUnwindSafe(&mut work)) else { return Ok(()) };
        let said = panic_text(&*panic);
        if last.is_some_and(|last| last.elapsed() < MOMENT) {
            return Err(said);
        }
        last = Some(Instant::now());
        telemetry::keeper_panicked(&said);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_now_and_then_is_done_in_the_end() {
        let mut runs = 0;
        let done = keep_on(|| {
            runs += 1;
            assert!(runs == 2, "run {runs}");
        });
        assert_eq!((done, runs), (Ok(()), 2));
    }

    #[test]
    fn work_that_panics_whatever_is_done_is_given_up_with_what_it_said() {
        let mut runs = 0;
        let done = keep_on(|| {
            runs += 1;
            panic!("run {runs}");
        });
        assert_eq!((done, runs), (Err("run 2".to_owned()), 2));
    }
}
