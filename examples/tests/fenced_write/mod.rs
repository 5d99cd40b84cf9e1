//! Runs the examples that write to their store only while they hold a lock.

use std::process::Command;

use crate::built;

/// Checks that an example is refused the write that it tries without its lock.
pub(crate) fn assert_refused_without_the_lock(example: &str, url: &str) {
    let output = Command::new(built::example(example)).arg(url).output();
    let output = output.expect("the example can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}{complained}", output.status);
    assert!(said.contains("refused, because the lock is not held any more"), "{said}");
    assert!(said.ends_with("balance: 50\n"), "{said}");
}
