//! [`ForkDetector`]: tells a fork that it cannot go on with what its parent did.

use std::{
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// The process that did something first that its forks cannot go on with: it needs a thread, or locks of the kernel, that a fork lacks.
///
/// A backend has one as a `static` for each thing that belongs to a whole process, and asks it before it does that thing.
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

    /// Whether this process is the first one. It becomes that if there is none yet. A fork of the first one is not.
    pub fn is_this(&self) -> bool {
        let me = process::id();
        match self.0.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(first) => first == me,
        }
    }
}
