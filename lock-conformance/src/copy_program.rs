//! [`copy_program`]: a program that can be run immediately.

use std::{path::Path, process::Command};

/// Copies a program, and gives the copy these permissions, such as `0o755`.
///
/// Another process writes the copy. A program that this process has written itself cannot always be run: if another thread starts a process
/// at the same moment, that process inherits the open file for an instant, and the kernel reports *text file busy*.
///
/// # Panics
/// If it cannot be copied.
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>, mode: u32) {
    let (from, to) = (from.as_ref(), to.as_ref());
    let copied = Command::new("install").arg("-m").arg(format!("{mode:o}")).args([from, to]).status();
    assert!(copied.is_ok_and(|copied| copied.success()), "{} is copied", from.display());
}
