//! [`Checkpointer`]: moves the write-ahead log into the database. This waits for the disk, which can take seconds when other programs use
//! it, so a separate thread does it while other threads and processes continue to write.

use std::{
    path::Path,
    sync::{
        Arc, OnceLock, Weak,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use lock_core::isolate;
use rusqlite::Connection;

use crate::{connection, error::Failure, store::Store, store_lock::StoreLock, time_limit::TimeLimit};

/// If the disk was quicker than this a moment ago, all threads of this process wait once so that the log can restart from its beginning,
/// which needs a moment without writes.
const QUICK: Duration = Duration::from_millis(100);

/// How long that waits for other writers.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long one statement may take: another program may have written more than locks into the file.
const LONGEST: Duration = Duration::from_secs(10);

/// If the log has fewer pages than this, another process has just restarted it.
const SHORT: i64 = 1024;

/// Wakes the thread that moves the log into the file. The thread starts at the first use, and ends with the executor.
#[derive(Debug, Default)]
pub(crate) struct Checkpointer(OnceLock<Option<SyncSender<()>>>);

impl Checkpointer {
    /// Asks for a checkpoint. Does nothing if one is running.
    pub(crate) fn request(&self, store: &Arc<StoreLock>) {
        // If the thread cannot be started, the worker makes the checkpoint when it is overdue.
        if let Some(thread) = self.0.get_or_init(|| start(Arc::downgrade(store))) {
            let _ = thread.try_send(());
        }
    }
}

fn start(store: Weak<StoreLock>) -> Option<SyncSender<()>> {
    let (call, calls) = sync_channel(1);
    let started =
        thread::Builder::new().name("distlock-sqlite-log".into()).spawn(move || work(&calls, &store));
    started
        .inspect_err(|error| {
            isolate(|| tracing::debug!(%error, "no thread could be started for the log"));
        })
        .ok()?;
    Some(call)
}

fn work(calls: &Receiver<()>, store: &Weak<StoreLock>) {
    while calls.recv().is_ok() {
        let Some(store) = store.upgrade() else { return };
        if let Err(error) = bring_into_file(&store) {
            isolate(|| tracing::debug!(?error, "the log was not brought into the file"));
        }
    }
}

/// Uses a connection of its own, and closes it afterwards. If it stayed open, it would keep other processes out after the log or the shared
/// memory were deleted, and nothing would notice that here.
fn bring_into_file(lock: &StoreLock) -> Result<(), Failure> {
    // Dropped after the connection.
    let Some((_opened, path)) = lock.with(Store::open_file) else { return Ok(()) };
    let (connection, limit) = connect(&path)?;
    let started = Instant::now();
    let pages: i64 = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))?;
    if pages < SHORT {
        lock.with(Store::mark_checkpointed);
        return Ok(());
    }
    let quick = started.elapsed() < QUICK;
    // The disk may have taken all of the first limit.
    limit.set(Instant::now() + LONGEST);
    lock.with(|store| {
        if (quick || store.is_log_long()) && begin_anew(&connection)? {
            store.mark_checkpointed();
        }
        Ok(())
    })
}

fn connect(path: &Path) -> Result<(Connection, TimeLimit), Failure> {
    let connection = connection::open(path)?;
    let limit = TimeLimit::on(&connection)?;
    limit.set(Instant::now() + LONGEST);
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok((connection, limit))
}

/// Restarts the log, to which little was written in the meantime. Writes once right after, because the first write to a restarted log waits
/// for the disk, and otherwise a caller would wait on its own thread. Returns false if other connections prevented the restart.
fn begin_anew(connection: &Connection) -> Result<bool, Failure> {
    let busy: bool = connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0))?;
    if !busy {
        // SQLite does not write a value that stays the same, so a token is skipped.
        connection.execute("UPDATE meta SET token = token + 1 WHERE token < ?1", [i64::MAX])?;
    }
    Ok(!busy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files::Files, new_database::prepare};

    /// Otherwise a caller would wait for the disk on its own thread.
    #[test]
    fn the_thread_that_restarts_the_log_is_the_first_to_write_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let mut files = Files::new(Some(&path)).unwrap();
        prepare(&mut files).unwrap();
        let (connection, _) = connect(&files.database).unwrap();
        connection.execute("UPDATE meta SET token = token + 1", []).unwrap();
        // The header counts the restarts.
        let log = || std::fs::read(folder.path().join("locks.db-wal")).unwrap()[12..16].to_vec();
        let before = log();
        assert!(begin_anew(&connection).unwrap(), "nobody else is there");
        assert_ne!(log(), before, "the next to write begins it");
    }
}
