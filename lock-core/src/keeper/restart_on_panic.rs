//! [`restart_on_panic`]: runs work again if it panics.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use crate::panic_isolation::panic_text;

/// A panic within this time of another one counts as the same: running the work again does not help.
const SAME_PANIC_WITHIN: Duration = Duration::from_secs(1);

/// Runs work until it is done. If it panics, `log` gets the message, and the work is run again.
///
/// # Errors
/// The message of the last panic, if it panics again and again.
pub(super) fn restart_on_panic(mut work: impl FnMut(), log: impl Fn(String)) -> Result<(), String> {
    let mut last: Option<Instant> = None;
    loop {
        let Err(panic) = catch_unwind(AssertUnwindSafe(&mut work)) else { return Ok(()) };
        let message = panic_text(panic);
        if last.is_some_and(|last| last.elapsed() < SAME_PANIC_WITHIN) {
            return Err(message);
        }
        last = Some(Instant::now());
        log(message);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn work_that_panics_now_and_then_is_done_in_the_end() {
        let (mut runs, logged) = (0, RefCell::new(String::new()));
        let work = || {
            runs += 1;
            assert!(runs == 2, "run {runs}");
        };
        let done = restart_on_panic(work, |message| *logged.borrow_mut() = message);
        assert_eq!((done, runs), (Ok(()), 2));
        assert_eq!(logged.into_inner(), "run 1");
    }

    #[test]
    fn work_that_panics_again_and_again_is_given_up_with_its_message() {
        let mut runs = 0;
        let done = restart_on_panic(
            || {
                runs += 1;
                panic!("run {runs}");
            },
            |_| {},
        );
        assert_eq!((done, runs), (Err("run 2".to_owned()), 2));
    }
}
