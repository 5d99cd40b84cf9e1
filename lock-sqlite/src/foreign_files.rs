//! Refuses foreign files under the names that SQLite opens, before SQLite opens them: it waits forever at a pipe, executes a journal, and
//! writes into any file.

use std::{
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::{
    access::Access,
    error::{Failure, denied, of_io},
};

/// A new file beside the database gets its mode and its group a moment later.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(5);

/// Refuses foreign files. SQLite opens files by path, so a user who may write to the folder can still be quicker than this check. See
/// `docs/security.md`.
///
/// # Errors
/// If there is a file that no user of the database can have made through this library.
pub(crate) fn refuse(database: &Path) -> Result<(), Failure> {
    // SQLite reports a missing file.
    let Some(found) = look(database)? else { return Ok(()) };
    if !found.is_file() {
        return Err(refused(database, "it is not a regular file; remove it"));
    }
    let access = Access::of(&found);
    for path in ["-wal", "-shm"].map(|suffix| beside(database, suffix)) {
        for left in (0..TRIES).rev() {
            let Some(found) = look(&path)? else { break };
            if access.is_made_for(&found) {
                break;
            }
            if left == 0 || !found.is_file() {
                let why = "it is not a file for the users who may write to the database; remove it while no process uses the database";
                return Err(refused(&path, why));
            }
            thread::sleep(PAUSE);
        }
    }
    let journal = beside(database, "-journal");
    match look(&journal)? {
        // Playing back a journal deletes the file that it names.
        Some(_) => Err(refused(&journal, "a journal stands beside the database, and is not ours; remove it")),
        None => Ok(()),
    }
}

fn look(path: &Path) -> Result<Option<Metadata>, Failure> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::Refused(of_io("looking at", path, error).unsent())),
    }
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::Refused(denied(path, why))
}
