//! [`EtcdStore`]: an etcd server.

mod floors;
mod relay;
mod server;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use etcd_client::{Client, ConnectOptions};
use lock_core::{Backend, Keeper};
use lock_etcd::{Etcd, EtcdConfig};

use self::{floors::EtcdFloors, relay::EtcdRelay, server::Server};
use super::{Commands, Floors, Noise, Relay, Store};
use crate::{Result, args::StoreKind};

#[derive(Debug)]
pub(crate) struct EtcdStore {
    address: String,
    /// It lives as long as this, and is ours if there is one.
    server: Option<Server>,
}

impl EtcdStore {
    pub(crate) async fn start() -> Result<Self> {
        let server = Server::start().await?;
        Ok(Self { address: server.address().to_owned(), server: Some(server) })
    }

    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.to_owned(), server: None }
    }

    async fn client(&self) -> Result<Client> {
        connect(&self.address).await
    }
}

/// A connection of its own, with the settings of ours: whoever wants to hear soon that a member has no leader has a header
/// with each request.
async fn connect(address: &str) -> Result<Client> {
    const PING_EVERY: Duration = Duration::from_secs(10);
    let options = ConnectOptions::new()
        .with_require_leader(true)
        .with_auto_token_refresh(true)
        .with_connect_timeout(Duration::from_secs(2))
        .with_keep_alive(PING_EVERY, PING_EVERY)
        .with_keep_alive_while_idle(false)
        .with_tcp_keepalive(PING_EVERY);
    Ok(Client::connect([address], Some(options)).await?)
}

#[async_trait]
impl Store for EtcdStore {
    fn kind(&self) -> StoreKind {
        StoreKind::Etcd
    }

    fn about(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let version = self.server.as_ref().map_or("of somebody else", Server::version);
        format!("etcd {version}, one member, without waiting for the disk, loopback, {cores} cores")
    }

    fn address(&self) -> Option<String> {
        Some(self.address.clone())
    }

    fn server(&self) -> Option<u32> {
        self.server.as_ref().map(Server::pid)
    }

    fn backend(&self) -> Result<Arc<dyn Backend>> {
        // Signs of life are no part of what is measured.
        let config = EtcdConfig::from_url(&format!("etcd://{}/bench?heartbeat=1h", self.address))?;
        Ok(Arc::new(Etcd::new(config, &Keeper::shared())?))
    }

    async fn floors(&self) -> Result<Option<Arc<dyn Floors>>> {
        Ok(Some(Arc::new(EtcdFloors::new(self.client().await?).await?)))
    }

    async fn noise(&self) -> Result<Option<Noise>> {
        let mut client = self.client().await?;
        let mut noise = Noise::new();
        noise.spawn(async move {
            loop {
                client.put("noise", "", None).await?;
                // Often enough that there is a write between any two steps of a hand-off, and not so often that it is the
                // load which is measured.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        Ok(Some(noise))
    }

    async fn relay(&self, from: &str, to: &str) -> Result<Option<Box<dyn Relay>>> {
        Ok(Some(Box::new(EtcdRelay::new(self.client().await?, from, to).await?)))
    }

    async fn commands(&self) -> Result<Option<Commands>> {
        server::commands(&self.address).await.map(Some)
    }
}
