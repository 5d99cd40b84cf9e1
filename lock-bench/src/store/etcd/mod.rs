//! [`EtcdStore`]: an etcd server.

mod client;
mod floors;
mod forwarder;
mod server;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Keeper};
use lock_etcd::{Etcd, EtcdConfig};

use self::{client::connect, floors::EtcdFloors, forwarder::EtcdForwarder};
use super::{
    CommandCounts, Floors, Forwarder, Store, StoreKind, interface::BackgroundWrites,
    started_server::StartedServer,
};
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct EtcdStore {
    address: String,
    /// The server that this process started.
    server: Option<StartedServer>,
}

impl EtcdStore {
    pub(crate) async fn start() -> Result<Self> {
        let server = server::start().await?;
        Ok(Self { address: server.address().to_owned(), server: Some(server) })
    }

    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.to_owned(), server: None }
    }
}

#[async_trait]
impl Store for EtcdStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Etcd
    }

    fn description(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let version = self.server.as_ref().map_or("of another process", StartedServer::version);
        format!("etcd {version}, one member, without waiting for the disk, loopback, {cores} cores")
    }

    fn address(&self) -> Option<String> {
        Some(self.address.clone())
    }

    fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().map(StartedServer::pid)
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        // Heartbeats are not measured.
        let config = EtcdConfig::from_url(&format!("etcd://{}/bench?heartbeat=1h", self.address))?;
        Ok(Arc::new(Etcd::new(config, &Keeper::shared())?))
    }

    async fn floors(&self) -> Result<Option<Arc<dyn Floors>>> {
        Ok(Some(Arc::new(EtcdFloors::new(connect(&self.address).await?).await?)))
    }

    async fn background_writes(&self) -> Result<Option<BackgroundWrites>> {
        let mut client = connect(&self.address).await?;
        let mut writes = BackgroundWrites::new();
        writes.spawn(async move {
            loop {
                client.put("noise", "", None).await?;
                // So often that there is a write between any two steps of a hand-off, but not so often that the writes are
                // what is measured.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Ok(Some(writes))
    }

    async fn forwarder(&self, from: &str, to: &str) -> Result<Option<Box<dyn Forwarder>>> {
        Ok(Some(Box::new(EtcdForwarder::new(connect(&self.address).await?, from, to).await?)))
    }

    async fn command_counts(&self) -> Result<Option<CommandCounts>> {
        server::command_counts(&self.address).await.map(Some)
    }
}
