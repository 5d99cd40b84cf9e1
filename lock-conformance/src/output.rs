//! What tests say past the capture of their harness, and what panics said.

use std::{
    any::Any,
    io::{self, Write},
};

/// Prints a line that is seen, and counted, in every run: also that of a test that passes.
pub(crate) fn say(line: &str) {
    // In one piece, because other tests say something, too. If standard error is closed, nobody wants to know.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// What a panic said.
pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "something went wrong".into())
}
