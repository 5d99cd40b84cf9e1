//! Creates a database: completely under another name, and renames it once no log or shared memory of an earlier database is left beside
//! the final name.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use lock_core::BackendError;
use rustix::{
    fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with},
    io::Errno,
};

use crate::{error::of_io, files::Files, random, schema};

/// The mode of a file for the user alone.
const OWN_FILE: u32 = 0o600;

/// How often, and how long each time, to wait for other processes that remove the same files.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

/// Creates the database, if it is missing.
///
/// # Errors
/// If it cannot be created, or is on a file system on which locks cannot be kept.
pub(crate) fn prepare(files: &mut Files) -> Result<(), BackendError> {
    files.locate()?;
    if files.identity().is_none() {
        make(files)?;
    }
    Ok(())
}

/// Creates the file under another name, so that no other process can ever open it incomplete. It is closed before it gets its name:
/// closing it later would drop the locks that this process may have on it by then.
///
/// # Errors
/// If it cannot be created.
fn make(files: &Files) -> Result<(), BackendError> {
    let failed = |error| of_io("making", &files.database, error).unsent();
    let mut new = files.database.clone().into_os_string();
    new.push(format!("-{:016x}.new", random::number().map_err(failed)?));
    let new = PathBuf::from(new);
    let named = create(&new).map_err(failed).and_then(|file| {
        schema::initialize(&new).map_err(|failure| failure.at(&files.database).unsent())?;
        name(file, &new, files).map_err(failed)
    });
    if !matches!(named, Ok(true)) {
        // The file may not exist.
        let _ = fs::remove_file(&new);
    }
    if named? {
        // Makes the name survive a loss of power, as the tokens in the file do.
        File::open(files.folder()).and_then(|folder| folder.sync_all()).map_err(failed)?;
    }
    Ok(())
}

fn create(new: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(OWN_FILE).open(new)
}

/// Returns false if another process was quicker: then its file is the database.
fn name(file: File, new: &Path, files: &Files) -> io::Result<bool> {
    file.sync_all()?;
    clear(files)?;
    let (ours, found) = (file.metadata()?, fs::symlink_metadata(new)?);
    if (ours.dev(), ours.ino()) != (found.dev(), found.ino()) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another program put another file in its place",
        ));
    }
    drop(file);
    match renameat_with(CWD, new, CWD, &files.database, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the log and the shared memory of a database that is gone, because SQLite would take their content for a part of the new one. A
/// process that still has them open notices that the database is another one.
fn clear(files: &Files) -> io::Result<()> {
    if left_of(files).is_empty() {
        return Ok(());
    }
    // One process at a time: a process that finds nothing left gives its file the name, and the log of that file must not be removed.
    let folder = File::open(files.folder())?;
    lock(&folder)?;
    let left = left_of(files);
    // Checked after that: if there is a database now, these files may be its own.
    if files.identity().is_some() {
        return Ok(());
    }
    for path in left {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn left_of(files: &Files) -> Vec<&Path> {
    let beside = [files.wal.as_path(), files.shm.as_path()];
    beside.into_iter().filter(|path| fs::symlink_metadata(path).is_ok()).collect()
}

fn lock(folder: &File) -> io::Result<()> {
    for _ in 0..TRIES {
        match flock(folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => thread::sleep(PAUSE),
            done => return Ok(done?),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another process has the folder locked (`flock`)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user who may write to the folder can replace the new file.
    #[test]
    fn a_file_that_was_put_in_the_place_of_a_new_one_gets_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(Some(&folder.path().join("locks.db"))).unwrap();
        let new = folder.path().join("ours.new");
        let file = create(&new).unwrap();
        fs::remove_file(&new).unwrap();
        let theirs = create(&new).unwrap();
        let error = name(file, &new, &files).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        assert!(files.identity().is_none(), "it has the name of the database");
        assert!(name(theirs, &new, &files).unwrap());
    }

    /// Nobody can remove a folder that is not empty as if it were a file.
    #[test]
    fn no_database_is_made_beside_a_log_that_cannot_be_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::new(Some(&folder.path().join("locks.db"))).unwrap();
        fs::create_dir(&files.wal).unwrap();
        assert!(prepare(&mut files).is_err());
        assert!(files.identity().is_none(), "there is a database");
    }

    #[test]
    fn nothing_of_a_database_that_is_gone_is_taken_for_a_part_of_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::new(Some(&folder.path().join("locks.db"))).unwrap();
        prepare(&mut files).unwrap();
        let former = rusqlite::Connection::open(&files.database).unwrap();
        former.execute("UPDATE meta SET token = 7", []).unwrap();
        fs::remove_file(&files.database).unwrap();
        prepare(&mut files).unwrap();
        assert!(left_of(&files).is_empty());
        let token = |connection: &rusqlite::Connection| {
            connection.query_row("SELECT token FROM meta", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        let next = rusqlite::Connection::open(&files.database).unwrap();
        assert!(token(&next) > 7, "the log of the former one was taken for its own");
        // The connection to the earlier database still sees that one, and removes nothing when it closes.
        assert_eq!(token(&former), 7);
        drop(former);
        assert_eq!(left_of(&files).len(), 2);
    }
}
