//! [`Redis`]: one server.

use std::net::SocketAddr;

use async_trait::async_trait;
use lock_conformance::ServerProcess;
use lock_test_servers::{RedisServer, ask};

use super::{
    insist::insist,
    interface::{Cluster, joined, local, not_here},
};
use crate::{error::Result, fault::ServerFault};

#[derive(Debug)]
pub(super) struct Redis(RedisServer);

impl Redis {
    pub(super) async fn start() -> Self {
        // What was written outlives a kill of the process, and the operating system is not killed.
        Self(RedisServer::start(&["--appendonly", "yes", "--appendfsync", "no"]).await)
    }

    /// How many bytes its data may take. Zero is any number.
    async fn limit_memory(&self, bytes: u32) -> Result<()> {
        let (address, request) = (self.address(), format!("CONFIG SET maxmemory {bytes}\r\nQUIT\r\n"));
        let said = ask(&address.to_string(), &request).await?;
        if said.starts_with("+OK") { Ok(()) } else { Err(said.into()) }
    }

    fn address(&self) -> SocketAddr {
        local(self.0.port())
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
        let lives = self.0.process().is_alive();
        if lives { Ok(()) } else { Err("the server has ended by itself".into()) }
    }

    async fn inflict(&self, fault: ServerFault, _members: &[usize]) -> Result<()> {
        match fault {
            ServerFault::Kill => self.0.process().kill(),
            ServerFault::Pause => self.0.process().running(ServerProcess::pause),
            ServerFault::Fill => insist("to fill the server", || self.limit_memory(1)).await?,
            ServerFault::Isolate | ServerFault::Depose => return Err(not_here(fault)),
        }
        Ok(())
    }

    async fn undo(&self, fault: ServerFault, _members: &[usize]) -> Result<()> {
        match fault {
            ServerFault::Kill => self.0.restart().await,
            ServerFault::Pause => self.0.process().running(ServerProcess::resume),
            ServerFault::Fill => insist("to make room", || self.limit_memory(0)).await?,
            ServerFault::Isolate | ServerFault::Depose => return Err(not_here(fault)),
        }
        Ok(())
    }
}
