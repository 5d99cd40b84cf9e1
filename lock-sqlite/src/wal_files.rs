//! [`OpenFiles`]: the write-ahead log and the shared memory of a database as it was opened. Both are parts of the database: under another
//! path, or after they were deleted, the same file would be another database.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use lock_core::sync::Mutex;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use crate::{
    connection,
    error::{self, Failure, not_ready, unsupported},
    file_id::{FileId, file_id},
    files::Files,
    random,
    time_limit::TimeLimit,
};

/// The files that are beside a database now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalFiles {
    pub(crate) wal: Option<FileId>,
    shm: Option<FileId>,
}

impl WalFiles {
    pub(crate) fn of(files: &Files) -> Self {
        Self { wal: file_id(&files.wal), shm: file_id(&files.shm) }
    }

    fn is_whole(&self) -> bool {
        self.wal.is_some() && self.shm.is_some()
    }
}

/// The databases that connections of this process have open, with their shared memory and the number of connections. SQLite keeps one shared
/// memory for all connections to a database, without checking that it still has its name.
static OPEN: Mutex<BTreeMap<FileId, (FileId, usize)>> = Mutex::new(BTreeMap::new());

/// The files that a connection has open, until it is closed.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    database: FileId,
    shm: FileId,
    wal_files: WalFiles,
}

impl OpenFiles {
    /// Called when the connection has read something: then it has both files open, and SQLite does not remove them. Waits while a former
    /// shared memory is still open in this process: a connection is closed, and its files are removed, before it is taken off the list.
    ///
    /// # Errors
    /// If the files were removed, or the former shared memory is open for all that time.
    pub(crate) fn take(database: FileId, files: &Files, give_up: Instant) -> Result<Self, Failure> {
        const PAUSE: Duration = Duration::from_millis(1);
        let wal_files = WalFiles::of(files);
        let (Some(_), Some(shm)) = (wal_files.wal, wal_files.shm) else { return Err(incomplete(files)) };
        while !count_connection(database, shm) {
            if Instant::now() + PAUSE >= give_up {
                return Err(incomplete(files));
            }
            thread::sleep(PAUSE);
        }
        Ok(Self { database, shm, wal_files })
    }

    /// Counts one more connection to the same files.
    pub(crate) fn share(&self) -> Self {
        OPEN.lock().entry(self.database).or_insert((self.shm, 0)).1 += 1;
        let Self { database, shm, wal_files } = *self;
        Self { database, shm, wal_files }
    }

    /// Whether all these files still have their names. Takes three looks at the file system.
    pub(crate) fn is_in_place(&self, files: &Files) -> bool {
        files.identity() == Some(self.database) && WalFiles::of(files) == self.wal_files
    }

    pub(crate) fn wal_files(&self) -> WalFiles {
        self.wal_files
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        let mut open = OPEN.lock();
        if let Some((_, connections)) = open.get_mut(&self.database) {
            *connections -= 1;
            if *connections == 0 {
                open.remove(&self.database);
            }
        }
    }
}

/// Counts one more connection of this process. False, and it is not counted, if others have another shared memory open.
fn count_connection(database: FileId, shm: FileId) -> bool {
    let mut open = OPEN.lock();
    let (known, connections) = open.entry(database).or_insert((shm, 0));
    let same = *known == shm;
    *connections += usize::from(same);
    same
}

/// Refuses a database with several names: under each it would have another log, and so other locks. Without this check, the locks that
/// SQLite holds on the file itself would reveal that only while the other process is there, and not to a process that finds an old log under
/// its name.
///
/// # Errors
/// If the database has more than one name.
pub(crate) fn refuse_other_names(path: &Path) -> Result<(), Failure> {
    let names = fs::metadata(path).map_or(1, |found| found.nlink());
    if names > 1 {
        let why = format!(
            "it has {names} names (hard links), and under each it would have separate locks; remove all but one"
        );
        return Err(Failure::Refused(unsupported(path, &why)));
    }
    // Kernels before 5.8 do not report this.
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty());
    if found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
        let why = "it is mounted alone, without the files beside it; mount its folder";
        return Err(Failure::Refused(unsupported(path, why)));
    }
    Ok(())
}

/// Before this process creates a log or a shared memory, waits until no process has the database open: none that opens or closes it at this
/// moment, none whose files were deleted, and none under another path. Then everything that these processes have written is in the file,
/// unless they were killed, because the last one that closes the database moves the log there.
///
/// # Errors
/// If a process has it open for all that time, or an error of SQLite.
pub(crate) fn wait_for_others(files: &Files, give_up: Instant) -> Result<(), Failure> {
    // A process that closes the file does not move the log into it while another one looks, so looks become less and less frequent.
    const LONGEST: u64 = 200;
    let mut longest = 1;
    while !WalFiles::of(files).is_whole() && !is_unused(&files.database, give_up)? {
        // Two processes that always look at the same moment would block each other.
        let drawn = random::number().map_or(1, i64::cast_unsigned) % longest;
        let pause = Duration::from_millis(1 + drawn);
        if Instant::now() + pause >= give_up {
            return Err(incomplete(files));
        }
        thread::sleep(pause);
        longest = (longest * 2).min(LONGEST);
    }
    Ok(())
}

/// Whether no process has a database open, under any path. In WAL mode, each connection holds a shared lock on the file from its first read
/// to its end, and a connection in exclusive mode gets the file for itself before it touches the log.
fn is_unused(database: &Path, give_up: Instant) -> Result<bool, Failure> {
    let connection = connection::open(database)?;
    TimeLimit::on(&connection)?.set(give_up);
    if connection.is_readonly("main")? {
        // Opening the file reports that.
        return Ok(true);
    }
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    match connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i32>(0)) {
        Ok(_) => Ok(true),
        Err(error) if error::is_busy(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn incomplete(files: &Files) -> Failure {
    let path = files.database.display();
    let why = format!(
        "a process has it open whose log or shared memory (`-wal`, `-shm`) is not here: they were deleted or replaced, or it came by \
         another path (`mv`, a mount); the file can be used when that process has noticed, within seconds, or ended (`fuser {path}`)"
    );
    Failure::Refused(not_ready(&files.database, &why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_database::prepare;

    /// A database in a folder of its own, with a connection that has a log and a shared memory.
    fn in_use() -> (tempfile::TempDir, Files, rusqlite::Connection) {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Files::new(Some(&folder.path().join("locks.db"))).unwrap();
        prepare(&mut files).unwrap();
        let connection = connection::open(&files.database).unwrap();
        connection.execute("UPDATE meta SET token = 7", []).unwrap();
        (folder, files, connection)
    }

    fn token(connection: &rusqlite::Connection) -> i64 {
        connection.query_row("SELECT token FROM meta", [], |row| row.get(0)).unwrap()
    }

    fn refuses(files: &Files) -> bool {
        wait_for_others(files, Instant::now() + Duration::from_millis(20)).is_err()
    }

    #[test]
    fn a_whole_database_keeps_nobody_out() {
        let (_folder, files, connection) = in_use();
        assert!(!refuses(&files));
        drop(connection);
        assert!(!refuses(&files), "the last one left nothing beside it, and is gone");
    }

    /// Everything that the connection wrote is in the file when it closes.
    #[test]
    fn half_of_an_open_database_keeps_others_out_and_nothing_is_lost() {
        for lost in [[true, true], [true, false], [false, true]] {
            let (_folder, files, connection) = in_use();
            for (path, lost) in [&files.wal, &files.shm].into_iter().zip(lost) {
                if lost {
                    fs::remove_file(path).unwrap();
                }
            }
            assert!(refuses(&files), "{lost:?}: a second log was begun beside the one in use");
            drop(connection);
            assert!(!refuses(&files), "{lost:?}: it is closed");
            assert_eq!(token(&connection::open(&files.database).unwrap()), 7, "{lost:?}");
        }
    }

    #[test]
    fn a_database_that_is_open_under_another_path_keeps_others_out() {
        let (folder, files, connection) = in_use();
        let path = folder.path().join("moved.db");
        fs::rename(&files.database, &path).unwrap();
        let mut moved = Files::new(Some(&path)).unwrap();
        prepare(&mut moved).unwrap();
        assert!(refuses(&moved));
        drop(connection);
        assert!(!refuses(&moved));
    }

    /// SQLite gives a new connection the shared memory that this process has open, whatever file has its name by now.
    #[test]
    fn a_replaced_shared_memory_is_refused_while_the_former_one_is_open() {
        let (_folder, files, _connection) = in_use();
        let database = files.identity().unwrap();
        let soon = || Instant::now() + Duration::from_millis(20);
        let first = OpenFiles::take(database, &files, soon()).unwrap();
        assert!(first.is_in_place(&files));
        replace(&files.shm);
        assert!(!first.is_in_place(&files));
        let shared = first.share();
        drop(first);
        assert!(OpenFiles::take(database, &files, soon()).is_err());
        drop(shared);
        assert!(OpenFiles::take(database, &files, soon()).is_ok());
    }

    /// Otherwise a client that opens the file while the last other one of its process closes it would be refused.
    #[test]
    fn a_connection_of_this_process_that_is_being_closed_is_waited_for() {
        let (_folder, files, _connection) = in_use();
        let database = files.identity().unwrap();
        let give_up = Instant::now() + Duration::from_secs(20);
        let closing = OpenFiles::take(database, &files, give_up).unwrap();
        replace(&files.shm);
        let closer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            drop(closing);
        });
        assert!(OpenFiles::take(database, &files, give_up).is_ok());
        closer.join().unwrap();
    }

    fn replace(path: &Path) {
        let copy = path.with_extension("copy");
        fs::copy(path, &copy).unwrap();
        fs::rename(&copy, path).unwrap();
    }
}
