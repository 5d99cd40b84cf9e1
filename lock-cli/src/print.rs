//! Writes to the standard output, and messages to the standard error.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use crate::{exit::Exit, failure::Failure, render};

/// Writes a text, and flushes it.
///
/// # Errors
/// If it cannot be written. A closed pipe, as before `head`, is a silent failure.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::silent(Exit::DONE),
        _ => Failure::new(Exit::NO, "the standard output cannot be written").because(&error),
    })
}

/// Writes a value as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let line = render::json_line(value).map_err(|error| Failure::new(Exit::NO, "no JSON").because(&error))?;
    text(&format!("{line}\n"))
}

/// Writes a line to the standard error, in one piece. That it cannot be written changes nothing: the exit code still says what happened.
pub(crate) fn message(line: &str) {
    // `eprintln!` would panic where a disk is full or a terminal has hung up.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}
