//! [`Sqlite`]: a file.

use std::{fs, net::SocketAddr, path::PathBuf, time::Duration};

use async_trait::async_trait;
use lock_conformance::ServerProgram;
use lock_core::sync::Mutex;
use lock_test_servers::{Preload, ServerClock, ServerDisk};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{
    insist::insist,
    interface::{Cluster, not_here},
};
use crate::{error::Result, fault::ServerFault};

/// The part of the folder that is on the disk.
const DATA: &str = "data";

/// How long each attempt waits while another connection writes.
const BUSY: Duration = Duration::from_millis(100);

/// It goes with its folder. Clients do what a server would: the disk on which the file is can be full for them, and they have one wall clock.
#[derive(Debug)]
pub(super) struct Sqlite {
    folder: TempDir,
    disk: ServerDisk,
    clock: ServerClock,
    /// A connection that writes and does not end.
    writer: Mutex<Option<Connection>>,
}

impl Sqlite {
    pub(super) fn create() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join(DATA);
        fs::create_dir(&data)?;
        let (disk, clock) = (ServerDisk::new(folder.path(), &data), ServerClock::new(folder.path()));
        Ok(Self { folder, disk, clock, writer: Mutex::default() })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(DATA).join("locks.db")
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

    fn client(&self, program: ServerProgram) -> ServerProgram {
        Preload::all(&[self.disk.preload(), self.clock.preload()], program)
    }

    async fn leader(&self) -> Result<usize> {
        Ok(0)
    }

    async fn all_serve(&self) -> Result<()> {
        Ok(())
    }

    async fn inflict(&self, fault: ServerFault, _members: &[usize]) -> Result<()> {
        match fault {
            ServerFault::Pause => insist("to write without an end", || async { self.begin() }).await?,
            ServerFault::FillDisk => self.disk.set_full(true),
            ServerFault::SetClock(by) => self.clock.advance(by),
            ServerFault::Kill | ServerFault::Isolate | ServerFault::Depose | ServerFault::Fill => {
                return Err(not_here(fault));
            }
        }
        Ok(())
    }

    async fn undo(&self, fault: ServerFault, _members: &[usize]) -> Result<()> {
        match fault {
            // What it wrote is undone.
            ServerFault::Pause => drop(self.writer.lock().take()),
            ServerFault::FillDisk => self.disk.set_full(false),
            ServerFault::SetClock(_) => {}
            ServerFault::Kill | ServerFault::Isolate | ServerFault::Depose | ServerFault::Fill => {
                return Err(not_here(fault));
            }
        }
        Ok(())
    }
}
