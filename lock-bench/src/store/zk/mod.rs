//! [`ZkStore`]: a ZooKeeper server.

mod client;
mod curator;
mod floors;
mod forwarder;
mod server;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Keeper};
use lock_zk::{ZkConfig, ZooKeeper};
use zookeeper_client::CreateMode;

use self::{
    client::{ALL, TICK, connect},
    floors::ZkFloors,
    forwarder::ZkForwarder,
};
use super::{
    Floors, Forwarder, Store, StoreKind, interface::BackgroundWrites, started_server::StartedServer,
};
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct ZkStore {
    address: String,
    /// The server that this process started.
    server: Option<StartedServer>,
}

impl ZkStore {
    pub(crate) async fn start() -> Result<Self> {
        let server = server::start().await?;
        Ok(Self { address: server.address().to_owned(), server: Some(server) })
    }

    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.to_owned(), server: None }
    }
}

#[async_trait]
impl Store for ZkStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Zk
    }

    fn description(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let version = self.server.as_ref().map_or("of another process", StartedServer::version);
        format!("zookeeper {version}, one server, without waiting for the disk, loopback, {cores} cores")
    }

    fn address(&self) -> Option<String> {
        Some(self.address.clone())
    }

    fn server_pid(&self) -> Option<u32> {
        self.server.as_ref().map(StartedServer::pid)
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        let config = ZkConfig::from_url(&format!("zk://{}/bench?tick={}ms", self.address, TICK.as_millis()))?;
        Ok(Arc::new(ZooKeeper::new(config, &Keeper::shared())?))
    }

    async fn floors(&self) -> Result<Option<Arc<dyn Floors>>> {
        Ok(Some(Arc::new(ZkFloors::new(&self.address).await?)))
    }

    async fn background_writes(&self) -> Result<Option<BackgroundWrites>> {
        let client = connect(&self.address).await?;
        client.mkdir("/noise", &CreateMode::Persistent.with_acls(ALL)).await?;
        let mut writes = BackgroundWrites::new();
        writes.spawn(async move {
            loop {
                client.set_data("/noise", b"", None).await?;
                // So often that there is a write between any two steps of a hand-off, but not so often that the writes are
                // what is measured.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Ok(Some(writes))
    }

    async fn forwarder(&self, from: &str, to: &str) -> Result<Option<Box<dyn Forwarder>>> {
        Ok(Some(Box::new(ZkForwarder::new(connect(&self.address).await?, from, to).await?)))
    }
}
