//! [`ran_nothing`]: a test that shows nothing here says so.

use std::io::{self, Write};

/// What the line begins with.
pub(crate) const RAN_NOTHING: &str = "ran nothing: ";

/// Says that a test passes without having run anything, and why, in a line on standard error that no runner captures:
///
/// ```text
/// ran nothing: resources::the_threads_and_files_of_a_client_go_with_it: only on Linux a process can count its own
/// ```
///
/// Whoever counts what passed takes these off.
pub fn ran_nothing(test: &str, reason: &str) {
    // `eprintln!` would be captured. If standard error is closed, nobody wants to know.
    let _ = writeln!(io::stderr(), "{RAN_NOTHING}{test}: {reason}");
}
