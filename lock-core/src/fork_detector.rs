//! [`ForkDetector`]: detects that this process is a fork, which lacks the threads and kernel locks of its parent.

use std::{
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// Remembers the first process that used something that does not work in a fork of it, because it needs a thread or locks of the kernel.
///
/// A backend has one as a `static` for each such resource of the whole process, and asks it before it uses the resource.
///
/// ```
/// static OPENED: lock_core::ForkDetector = lock_core::ForkDetector::new();
///
/// assert!(OPENED.is_this(), "no process did before");
/// assert!(OPENED.is_this(), "the same process may go on");
/// ```
#[derive(Debug, Default)]
pub struct ForkDetector(AtomicU32);

impl ForkDetector {
    /// No process has done it yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Whether this process is the first one. It becomes the first one if there is none yet. A fork of the first one is not the first one.
    pub fn is_this(&self) -> bool {
        let me = process::id();
        match self.0.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(first) => first == me,
        }
    }
}
