//! [`Redis`]: one server.

use std::{fs, net::SocketAddr};

use async_trait::async_trait;
use lock_conformance::ServerProcess;
use lock_test_servers::{RedisServer, ServerClock, ServerDisk, ask};

use super::{
    insist::insist,
    interface::{Cluster, joined, local, not_here},
};
use crate::{error::Result, fault::ServerFault};

/// What was written outlives a kill of the process, and the operating system is not killed.
const ARGUMENTS: [&str; 6] = ["--appendonly", "yes", "--appendfsync", "no", "--dir", DATA];

/// The part of its directory that is on the disk which can be full.
const DATA: &str = "data";

/// By how many seconds the clock is set to see that the server runs by it.
const HOUR: i64 = 3600;

#[derive(Debug)]
pub(super) struct Redis {
    server: RedisServer,
    clock: ServerClock,
    disk: ServerDisk,
}

impl Redis {
    /// # Errors
    /// If the server does not run by the clock that is set for it.
    pub(super) async fn start() -> Result<Self> {
        let redis = loop {
            let mut server = RedisServer::new(&ARGUMENTS);
            let folder = server.process().directory();
            let data = folder.join(DATA);
            fs::create_dir(&data)?;
            let (clock, disk) = (ServerClock::new(folder), ServerDisk::new(folder, &data));
            server.with_clock(&clock);
            server.with_disk(&disk);
            server.launch();
            if server.answers().await {
                break Self { server, clock, disk };
            }
        };
        let before = redis.seconds().await?;
        redis.clock.set_ahead(HOUR);
        let moved = redis.seconds().await? - before;
        redis.clock.set_ahead(0);
        // It may have taken a while to answer.
        if (HOUR..HOUR + 60).contains(&moved) {
            Ok(redis)
        } else {
            Err(format!("the clock was set forward by {HOUR} s, and for the server by {moved} s").into())
        }
    }

    /// What time it is for the server, in seconds since 1970.
    async fn seconds(&self) -> Result<i64> {
        let said = ask(&self.address().to_string(), "TIME\r\nQUIT\r\n").await?;
        // An array of two, and the length of the first.
        let seconds = said.lines().nth(2).and_then(|seconds| seconds.parse().ok());
        seconds.ok_or_else(|| format!("the server was asked for the time, and said `{said}`").into())
    }

    /// How many bytes its data may take. Zero is any number.
    async fn limit_memory(&self, bytes: u32) -> Result<()> {
        let (address, request) = (self.address(), format!("CONFIG SET maxmemory {bytes}\r\nQUIT\r\n"));
        let said = ask(&address.to_string(), &request).await?;
        if said.starts_with("+OK") { Ok(()) } else { Err(said.into()) }
    }

    /// Returns when all that it has answered is in its log: what it could not write it writes when there is room.
    async fn has_written(&self) -> Result<()> {
        let said = ask(&self.address().to_string(), "INFO persistence\r\nQUIT\r\n").await?;
        if said.contains("aof_last_write_status:ok") { Ok(()) } else { Err(said.into()) }
    }

    fn address(&self) -> SocketAddr {
        local(self.server.port())
    }
}

#[async_trait]
impl Cluster for Redis {
    fn addresses(&self) -> Vec<SocketAddr> {
        vec![self.address()]
    }

    fn url(&self, addresses: &[SocketAddr]) -> String {
        format!("redis://{}", joined(addresses))
    }

    async fn leader(&self) -> Result<usize> {
        Ok(0)
    }

    async fn all_serve(&self) -> Result<()> {
        let lives = self.server.process().is_alive();
        if lives { Ok(()) } else { Err("the server has ended by itself".into()) }
    }

    async fn inflict(&self, fault: ServerFault, _members: &[usize]) -> Result<()> {
        match fault {
            ServerFault::Kill => self.server.process().kill(),
            ServerFault::Pause => self.server.process().running(ServerProcess::pause),
            ServerFault::Fill => insist("to fill the server", || self.limit_memory(1)).await?,
            ServerFault::FillDisk => self.disk.set_full(true),
            ServerFault::SetClock(by) => self.clock.advance(by),
            ServerFault::Isolate | ServerFault::Depose => return Err(not_here(fault)),
        }
        Ok(())
    }

    async fn undo(&self, fault: ServerFault, _members: &[usize]) -> Result<()> {
        match fault {
            ServerFault::Kill => self.server.restart().await,
            ServerFault::Pause => self.server.process().running(ServerProcess::resume),
            ServerFault::Fill => insist("to make room", || self.limit_memory(0)).await?,
            ServerFault::FillDisk => {
                self.disk.set_full(false);
                insist("to write what was answered", || self.has_written()).await?;
            }
            ServerFault::SetClock(_) => {}
            ServerFault::Isolate | ServerFault::Depose => return Err(not_here(fault)),
        }
        Ok(())
    }
}
