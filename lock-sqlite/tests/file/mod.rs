//! [`OwnFile`]: a file in a folder of its own, and the operations that change or disturb it.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use lock_conformance::{Control, Data, Footprint, ServerControl, Unsupported};
use lock_core::{FencingToken, Keeper, LockName, sync::Mutex};
use lock_sqlite::{Sqlite, SqliteConfig};
use rusqlite::Connection;
use tempfile::TempDir;

const NO_SERVER: Control = Err(Unsupported("a file is no server"));
const NO_LIMIT: Control = Err(Unsupported("nothing limits it but the disk"));

/// Settings of a client that shares nothing with other clients of its process. Clients with the same settings share their threads and files.
pub(crate) fn config(path: &Path) -> SqliteConfig {
    static CLIENTS: AtomicU64 = AtomicU64::new(0);
    let mut config = SqliteConfig::default();
    config.path = Some(path.to_owned());
    config.command_timeout += Duration::from_nanos(CLIENTS.fetch_add(1, Ordering::Relaxed));
    config
}

/// A client of the locks in a file.
pub(crate) fn client(path: &Path, keeper: &Keeper) -> Sqlite {
    Sqlite::new(config(path), keeper).expect("the configuration is good")
}

/// A file for one test. It is removed with its folder.
#[derive(Debug)]
pub(crate) struct OwnFile {
    folder: TempDir,
    /// A connection with a write transaction that does not end.
    writer: Mutex<Option<Connection>>,
}

impl OwnFile {
    /// A file that has not been opened yet.
    ///
    /// # Panics
    /// If there is no room for it.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room for temporary files");
        Self { folder, writer: Mutex::new(None) }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    /// The folder of the processes that have the file open.
    pub(crate) fn processes(&self) -> PathBuf {
        self.beside("-processes")
    }

    /// A connection like one of the `sqlite3` program.
    pub(crate) fn open(&self) -> Connection {
        Connection::open(self.path()).expect("the file is there")
    }

    /// The path of a file beside the database.
    pub(crate) fn beside(&self, suffix: &str) -> PathBuf {
        let mut path: OsString = self.path().into();
        path.push(suffix);
        path.into()
    }

    /// Removes the database while clients have it open.
    pub(crate) fn remove(&self) {
        for suffix in ["", "-wal", "-shm"] {
            // The file may not exist yet.
            let _ = fs::remove_file(self.beside(suffix));
        }
    }
}

#[async_trait]
impl ServerControl for OwnFile {
    async fn kill(&self) -> Control {
        NO_SERVER
    }

    async fn stop(&self) -> Control {
        NO_SERVER
    }

    async fn start(&self, _data: Data) -> Control {
        NO_SERVER
    }

    /// Begins a write transaction, so that no other connection can write.
    async fn pause(&self) -> Control {
        let connection = self.open();
        connection.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes for more than five seconds");
        *self.writer.lock() = Some(connection);
        Ok(())
    }

    async fn resume(&self) -> Control {
        // This rolls its transaction back.
        drop(self.writer.lock().take());
        Ok(())
    }

    async fn delete(&self, name: &LockName) -> Control {
        self.open().execute("DELETE FROM entries WHERE name = ?1", [name.as_str()]).expect("it is no secret");
        Ok(())
    }

    async fn flush(&self) -> Control {
        self.remove();
        Ok(())
    }

    /// Moves the log into the file.
    async fn forget(&self) -> Control {
        // While a connection reads, not all of the log is moved into the file.
        let _ = self.open().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        Ok(())
    }

    async fn fill(&self) -> Control {
        NO_LIMIT
    }

    async fn make_room(&self) -> Control {
        NO_LIMIT
    }

    /// Deletes files, as an operator may do to clear a disk.
    async fn evict(&self) -> Control {
        self.remove();
        Ok(())
    }

    async fn lock_out(&self) -> Control {
        Err(Unsupported("who may open the file may use it"))
    }

    async fn let_in(&self) -> Control {
        Err(Unsupported("who may open the file may use it"))
    }

    async fn put_foreign(&self, _name: &LockName) -> Control {
        Err(Unsupported("there is no place for anything but locks"))
    }

    async fn has_foreign(&self, _name: &LockName) -> Result<bool, Unsupported> {
        Err(Unsupported("there is no place for anything but locks"))
    }

    async fn raise_tokens(&self, _name: &LockName, last: FencingToken) -> Control {
        let keeper = Keeper::start().expect("a keeper's thread can be started");
        client(&self.path(), &keeper).raise_tokens(last).await.expect("the file can be written");
        Ok(())
    }

    /// The memory in the footprint is the space that the database uses.
    async fn footprint(&self) -> Result<Footprint, Unsupported> {
        if !self.path().exists() {
            return Ok(Footprint::default());
        }
        let database = self.open();
        let count = |query: &str| {
            let count: i64 = database.query_row(query, [], |row| row.get(0)).unwrap_or(0);
            count.unsigned_abs()
        };
        let pages = count("PRAGMA page_count") - count("PRAGMA freelist_count");
        let sockets = fs::read_dir(self.processes()).map_or(0, |files| {
            files.flatten().filter(|file| file.path().extension().is_some_and(|e| e == "sock")).count()
        });
        Ok(Footprint {
            queues: count("SELECT count(DISTINCT name) FROM entries"),
            kept: 0,
            sessions: 0,
            connections: count("SELECT count(*) FROM members"),
            subscriptions: sockets as u64,
            memory: Some(pages * count("PRAGMA page_size")),
        })
    }

    async fn cut_notifications(&self) -> Control {
        for file in fs::read_dir(self.processes()).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|extension| extension == "sock") {
                let _ = fs::remove_file(file.path());
            }
        }
        Ok(())
    }
}
