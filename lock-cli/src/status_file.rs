//! [`StatusFile`]: how `run` ended, for scripts that have to tell the exit codes of the command from ours.

use std::{fs, path::Path};

use distlock::escape_unprintable;

use crate::{exit::Exit, failure::Failure, print};

/// The file of `--status-file`, if any.
#[derive(Debug)]
pub(crate) struct StatusFile<'a> {
    path: Option<&'a Path>,
}

impl<'a> StatusFile<'a> {
    /// Empties the file: if this process is killed, the status of an earlier run must not stay.
    ///
    /// # Errors
    /// If it cannot be written to. Call it before the lock is taken.
    pub(crate) fn begin(path: Option<&'a Path>) -> Result<Self, Failure> {
        let emptied = path.map_or(Ok(()), |path| fs::write(path, ""));
        emptied.map_err(|error| {
            Failure::new(Exit::USAGE, "--status-file cannot be written to").because(&error)
        })?;
        Ok(Self { path })
    }

    /// Writes what happened, and the exit code.
    pub(crate) fn end(&self, what: &str, exit: Exit) {
        let Some(path) = self.path else { return };
        if let Err(error) = fs::write(path, format!("{what} {exit}\n")) {
            let path = escape_unprintable(&path.display().to_string());
            print::message(&format!("distlock: {path} cannot be written: {error}"));
        }
    }
}
