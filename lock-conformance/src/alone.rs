//! [`alone`]: runs a test in its own process, for figures that are counted for a whole process.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::ran_nothing::RAN_NOTHING;

/// Names the test to run in this process.
const VARIABLE: &str = "DISTLOCK_ALONE";

/// What the process prints when the test is over.
const MARK: &str = "@alone: over";

/// The settings of the C library.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Turns off malloc's caches for each thread. Cached blocks count as in use, and their number grows until each thread has freed some of
/// each size.
const NO_CACHES: &str = "glibc.malloc.tcache_count=0";

/// Runs a test in its own process, in which nothing else runs: this test binary, started again for this test only.
/// `test` is the full name of the calling test.
///
/// # Panics
/// If the test fails there, or has another name.
pub fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var(VARIABLE).is_ok_and(|name| name == test) {
        body();
        return println!("{MARK}");
    }
    let binary = std::env::current_exe().expect("the test binary knows its path");
    let tunables =
        std::env::var(TUNABLES).map_or(NO_CACHES.to_owned(), |others| format!("{others}:{NO_CACHES}"));
    let output = Command::new(binary)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(VARIABLE, test)
        .env(TUNABLES, tunables)
        .stdin(Stdio::null())
        .output()
        .expect("the test binary can be started once more");
    let (told, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    print!("{told}");
    for line in errors.lines().filter(|line| line.starts_with(RAN_NOTHING)) {
        // As it does itself.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    assert!(output.status.success(), "in its own process, {test} failed:\n{errors}");
    assert!(told.contains(MARK), "there is no test `{test}` that could be run alone:\n{told}");
}
