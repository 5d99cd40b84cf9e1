//! [`SqliteStore`]: a file, and bare transactions on another file beside it.

use std::{path::PathBuf, sync::Arc, time::Instant};

use async_trait::async_trait;
use lock_core::{Backend, Keeper};
use lock_sqlite::{Sqlite, SqliteConfig};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Floors, Stop, Store, StoreKind};
use crate::{error::Result, samples::Samples};

#[derive(Debug)]
pub(crate) struct SqliteStore {
    path: PathBuf,
    /// The folder that this process created.
    _folder: Option<TempDir>,
}

impl SqliteStore {
    pub(crate) fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        Ok(Self { path: folder.path().join("locks.db"), _folder: Some(folder) })
    }

    pub(crate) fn at(path: &str) -> Self {
        Self { path: path.into(), _folder: None }
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Sqlite
    }

    fn description(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        format!(
            "SQLite {}, {}, {cores} cores; floor of a pair: one bare transaction",
            rusqlite::version(),
            self.path.display()
        )
    }

    fn address(&self) -> Option<String> {
        self.path.to_str().map(str::to_owned)
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        let mut config = SqliteConfig::default();
        config.path = Some(self.path.clone());
        Ok(Arc::new(Sqlite::new(config, &Keeper::shared())?))
    }

    async fn floors(&self) -> Result<Option<Arc<dyn Floors>>> {
        Ok(Some(Arc::new(SqliteFloors(self.path.with_file_name("bare.db")))))
    }
}

/// A database without locks, with the same settings, written on the thread that measures.
#[derive(Debug)]
struct SqliteFloors(PathBuf);

impl SqliteFloors {
    /// Each transaction updates the same row.
    fn transactions(&self, stop: Stop) -> Result<Samples> {
        let connection = Connection::open(&self.0)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
             CREATE TABLE IF NOT EXISTS bare (one INTEGER PRIMARY KEY, number INTEGER NOT NULL);
             INSERT OR IGNORE INTO bare VALUES (1, 0);",
        )?;
        let mut samples = Samples::default();
        while stop.should_continue(samples.len()) {
            let started = Instant::now();
            for statement in
                ["BEGIN IMMEDIATE", "UPDATE bare SET number = number + 1 WHERE one = 1", "COMMIT"]
            {
                connection.prepare_cached(statement)?.execute([])?;
            }
            samples.record(started.elapsed());
        }
        Ok(samples)
    }
}

#[async_trait]
impl Floors for SqliteFloors {
    async fn pings(&self, stop: Stop) -> Result<Samples> {
        self.transactions(stop)
    }

    /// One transaction for each pair, and not two: the bound of a pair is a multiple of one transaction.
    async fn pairs(&self, _key: &str, stop: Stop) -> Result<Samples> {
        self.transactions(stop)
    }
}
