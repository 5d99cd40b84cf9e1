//! Refuses to open a database in a fork of a process that had one open.

use std::path::Path;

use lock_core::{BackendError, ForkDetector};

use crate::error::unsupported;

/// The process that first opened a database. SQLite keeps its locks for a whole process in memory, which a fork inherits; the kernel keeps
/// them for a process id, which a fork does not inherit. So a fork would take the locks of its parent for its own.
static OPENED: ForkDetector = ForkDetector::new();

/// Called before a database is opened.
///
/// # Errors
/// If a database was opened before this process was forked.
pub(crate) fn check(database: &Path) -> Result<(), BackendError> {
    if OPENED.is_this() {
        return Ok(());
    }
    Err(unsupported(
        database,
        "this process was forked from one that had opened such a file, and would take its locks for its own; open the file only in \
         the forks, or execute a program there",
    ))
}
