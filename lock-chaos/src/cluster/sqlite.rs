//! [`Sqlite`]: a file.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use async_trait::async_trait;
use lock_core::sync::Mutex;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    insist::insist,
    interface::{Cluster, not_here},
};
use crate::{error::Result, fault::ServerFault};

/// How long each attempt waits while another connection writes.
const BUSY: Duration = Duration::from_millis(100);

/// It goes with its folder.
#[derive(Debug)]
pub(super) struct Sqlite {
    folder: TempDir,
    /// A connection that writes and does not end.
    writer: Mutex<Option<Connection>>,
}

impl Sqlite {
    pub(super) fn create() -> Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, writer: Mutex::default() })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    /// Begins to write, so that nobody else can.
    fn begin(&self) -> Result<()> {
        let connection = Connection::open(self.path())?;
        connection.busy_timeout(BUSY)?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        *self.writer.lock() = Some(connection);
        Ok(())
    }
}

#[async_trait]
impl Cluster for Sqlite {
    fn addresses(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    fn url(&self, _addresses: &[SocketAddr]) -> String {
        format!("sqlite:{}", self.path().display())
    }

    async fn leader(&self) -> Result<usize> {
        Ok(0)
    }

    async fn all_serve(&self) -> Result<()> {
        Ok(())
    }

    async fn inflict(&self, fault: ServerFault, _members: &[usize]) -> Result<()> {
        if fault != ServerFault::Pause {
            return Err(not_here(fault));
        }
        insist("to write without an end", || async { self.begin() }).await
    }

    async fn undo(&self, _fault: ServerFault, _members: &[usize]) -> Result<()> {
        // What it wrote is undone.
        drop(self.writer.lock().take());
        Ok(())
    }
}
