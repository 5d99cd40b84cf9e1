//! [`FirstProcess`]: what a fork cannot go on with.

use std::{
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// The process that first did something for which its forks lack a part: a thread, or locks of the kernel that are not theirs.
///
/// A backend has one as a `static` for what belongs to a whole process, and asks before it does it.
///
/// ```
/// static OPENED: lock_core::FirstProcess = lock_core::FirstProcess::new();
///
/// assert!(OPENED.is_this(), "nobody did before");
/// assert!(OPENED.is_this(), "the same process may go on");
/// ```
#[derive(Debug, Default)]
pub struct FirstProcess(AtomicU32);

impl FirstProcess {
    /// Nobody has done it.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Whether this process is the first one, which it becomes if nobody has been. In a fork of the first one it is not.
    pub fn is_this(&self) -> bool {
        let me = process::id();
        match self.0.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(first) => first == me,
        }
    }
}
