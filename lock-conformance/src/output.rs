//! Output that the test harness does not capture, and the messages of panics.

use std::{
    any::Any,
    io::{self, Write},
};

/// Prints a line that shows in every run, also when the test passes, so that scripts can count it.
pub(crate) fn say(line: &str) {
    // In one write, because other tests print as well. If standard error is closed, there is nothing to do.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The message of a panic.
pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "something went wrong".into())
}
