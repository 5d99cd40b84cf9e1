//! A fork of a process that has a database open cannot open one.

use std::path::Path;

use lock_core::{BackendError, FirstProcess};

use crate::error::unsupported;

/// The process that first opened a database. SQLite keeps what it has locked for a whole process, and the kernel whose it is: a fork
/// has the one and not the other, and would take the locks of its parent for its own.
static OPENED: FirstProcess = FirstProcess::new();

/// To be called before a database is opened.
///
/// # Errors
/// If that was done before this process was forked.
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
