//! [`ZkStore`]: a ZooKeeper server.

mod curator;
mod floors;
mod relay;
mod server;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{Backend, Keeper};
use lock_zk::{ZkConfig, ZooKeeper};
use zookeeper_client::{Acls, Client, CreateMode};

use self::{floors::ZkFloors, relay::ZkRelay, server::Server};
use super::{Commands, Floors, Noise, Relay, Store};
use crate::{Result, args::StoreKind};

#[derive(Debug)]
pub(crate) struct ZkStore {
    address: String,
    /// It lives as long as this, and is ours if there is one.
    server: Option<Server>,
}

impl ZkStore {
    pub(crate) async fn start() -> Result<Self> {
        let server = Server::start().await?;
        Ok(Self { address: server.address().to_owned(), server: Some(server) })
    }

    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.to_owned(), server: None }
    }
}

/// Of the server, so that a session can be about as short as the shortest ttl that is measured.
const TICK: Duration = Duration::from_millis(200);

/// So long that pings are no part of what is measured.
const SESSION: Duration = Duration::from_secs(36);

/// A session of its own.
async fn connect(address: &str) -> Result<Client> {
    Ok(Client::connector().with_session_timeout(SESSION).connect(address).await?)
}

/// Nobody who measures is kept out.
const ALL: Acls<'static> = Acls::anyone_all();

#[async_trait]
impl Store for ZkStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Zk
    }

    fn about(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let version = self.server.as_ref().map_or("of somebody else", Server::version);
        format!("zookeeper {version}, one server, without waiting for the disk, loopback, {cores} cores")
    }

    fn address(&self) -> Option<String> {
        Some(self.address.clone())
    }

    fn server(&self) -> Option<u32> {
        self.server.as_ref().map(Server::pid)
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        let config = ZkConfig::from_url(&format!("zk://{}/bench?tick={}ms", self.address, TICK.as_millis()))?;
        Ok(Arc::new(ZooKeeper::new(config, &Keeper::shared())?))
    }

    async fn floors(&self) -> Result<Option<Arc<dyn Floors>>> {
        Ok(Some(Arc::new(ZkFloors::new(&self.address).await?)))
    }

    async fn noise(&self) -> Result<Option<Noise>> {
        let client = connect(&self.address).await?;
        client.mkdir("/noise", &CreateMode::Persistent.with_acls(ALL)).await?;
        let mut noise = Noise::new();
        noise.spawn(async move {
            loop {
                client.set_data("/noise", b"", None).await?;
                // Often enough that there is a write between any two steps of a hand-off, and not so often that it is the
                // load which is measured.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Ok(Some(noise))
    }

    async fn relay(&self, from: &str, to: &str) -> Result<Option<Box<dyn Relay>>> {
        Ok(Some(Box::new(ZkRelay::new(connect(&self.address).await?, from, to).await?)))
    }

    async fn commands(&self) -> Result<Option<Commands>> {
        // It counts pings among them.
        Ok(None)
    }
}
