//! The log: what was written since the database was last brought up to date. That takes waiting for the disk, which may take
//! seconds when others use it, and so is done beside those who write.

use std::{
    path::Path,
    sync::{
        Arc, OnceLock, Weak,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;

use crate::{connection, error::Failure, store::Store, store_lock::StoreLock, time_limit::TimeLimit};

/// Everybody here waits for a disk that was quicker than this a moment ago, so that the log can begin anew: that takes a moment
/// in which nobody writes.
const QUICK: Duration = Duration::from_millis(100);

/// How long others who write are waited for then.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long a statement goes on: others may have written more into the file than locks.
const LONGEST: Duration = Duration::from_secs(10);

/// Of so many pages at the most, the log has just begun anew: somebody else did it.
const SHORT: i64 = 1024;

/// Calls the thread that brings the log into the file. It is started when it is first needed, and ends with the desk.
#[derive(Debug, Default)]
pub(crate) struct Checkpointer(OnceLock<Option<SyncSender<()>>>);

impl Checkpointer {
    /// To be done when there is time. Nothing, if it is being done.
    pub(crate) fn request(&self, store: &Arc<StoreLock>) {
        // Without one, the thread of the file does it in the end.
        if let Some(thread) = self.0.get_or_init(|| start(Arc::downgrade(store))) {
            let _ = thread.try_send(());
        }
    }
}

fn start(store: Weak<StoreLock>) -> Option<SyncSender<()>> {
    let (call, calls) = sync_channel(1);
    let started =
        thread::Builder::new().name("distlock-sqlite-log".into()).spawn(move || work(&calls, &store));
    started.inspect_err(|error| tracing::debug!(%error, "no thread could be started for the log")).ok()?;
    Some(call)
}

fn work(calls: &Receiver<()>, store: &Weak<StoreLock>) {
    while calls.recv().is_ok() {
        let Some(store) = store.upgrade() else { return };
        if let Err(error) = bring_into_file(&store) {
            tracing::debug!(?error, "the log was not brought into the file");
        }
    }
}

/// On a connection of its own, which is closed behind it: one that stayed open would keep others from a file in half, and nobody
/// would look whether it is one.
fn bring_into_file(lock: &StoreLock) -> Result<(), Failure> {
    // It is dropped after the connection.
    let Some((_opened, path)) = lock.with(Store::open_file) else { return Ok(()) };
    let (connection, limit) = connect(&path)?;
    let started = Instant::now();
    let pages: i64 = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(1))?;
    if pages < SHORT {
        lock.with(Store::mark_checkpointed);
        return Ok(());
    }
    let quick = started.elapsed() < QUICK;
    // The disk may have taken longer.
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

/// What was written meanwhile is little. Then one writes at the beginning, and waits for the disk once more: else that would be
/// a caller, on his own thread. False if others did not let it.
fn begin_anew(connection: &Connection) -> Result<bool, Failure> {
    let busy: bool = connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get(0))?;
    if !busy {
        // What is set to what it was is not written. A token that nobody gets harms nobody.
        connection.execute("UPDATE meta SET token = token + 1 WHERE token < ?1", [i64::MAX])?;
    }
    Ok(!busy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files::Files, new_database::prepare};

    /// Else that would be a caller, who waits for the disk on his own thread.
    #[test]
    fn the_thread_that_restarts_the_log_is_the_first_to_write_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let mut files = Files::new(Some(&path)).unwrap();
        prepare(&mut files).unwrap();
        let (connection, _) = connect(&files.database).unwrap();
        connection.execute("UPDATE meta SET token = token + 1", []).unwrap();
        // Its head tells how often it has begun anew.
        let log = || std::fs::read(folder.path().join("locks.db-wal")).unwrap()[12..16].to_vec();
        let before = log();
        assert!(begin_anew(&connection).unwrap(), "nobody else is there");
        assert_ne!(log(), before, "the next to write begins it");
    }
}
