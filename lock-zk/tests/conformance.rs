//! The suite on a real ZooKeeper server.

mod framing;
mod server;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_conformance::{Case, Declared, Framed, Framing, Harness, ServerControl, Verb, Wire, resolve};
use lock_core::{Backend, Keeper};
use lock_zk::{ZkConfig, ZooKeeper};

use self::{framing::Packets, server::declared};

lock_conformance::suite!(ZkHarness);

/// A server for one case, or a node on the one that a URL names.
#[derive(Debug)]
struct ZkHarness {
    url: String,
    /// Only in the process of the case itself, not in its contenders.
    server: Option<Box<dyn ServerControl>>,
}

#[async_trait]
impl Harness for ZkHarness {
    fn store() -> &'static str {
        if server::url().is_some() { "zookeeper by url" } else { "zookeeper" }
    }

    fn client_logs(&self) -> Option<&'static str> {
        Some("zookeeper_client")
    }

    fn cuts_show_nothing() -> Option<&'static str> {
        Some("a session that is connected again is told what happened to the nodes that it watches")
    }

    fn declared() -> &'static [Declared] {
        if server::url().is_some() { declared::BY_URL } else { declared::OWN }
    }

    async fn start(case: &'static Case) -> Self {
        let (url, server) = server::for_one_case(case).await;
        Self { url, server: Some(server) }
    }

    async fn attach(address: &str) -> Self {
        Self { url: address.to_owned(), server: None }
    }

    fn address(&self) -> Option<String> {
        Some(self.url.clone())
    }

    async fn connect(&self, keeper: &Keeper) -> Arc<dyn Backend> {
        Arc::new(ZooKeeper::new(self.config(), keeper).expect("the configuration is good"))
    }

    fn wire(&self) -> Option<&dyn Wire> {
        Some(self)
    }

    /// The step of the heartbeats: ADR 11.
    fn deadline_step(&self, ttl: Duration) -> Duration {
        self.config().tick.max(ttl / 12)
    }

    fn server(&self) -> &dyn ServerControl {
        self.server.as_deref().expect("a contender leaves the server alone")
    }
}

#[async_trait]
impl Wire for ZkHarness {
    fn server(&self) -> SocketAddr {
        resolve(self.config().endpoints[0].to_string())
    }

    async fn connect_by(&self, keeper: &Keeper, address: SocketAddr) -> Arc<dyn Backend> {
        let mut config = self.config();
        config.endpoints = vec![address.to_string().parse().expect("an address is an endpoint")];
        Arc::new(ZooKeeper::new(config, keeper).expect("the configuration is good"))
    }

    fn carries_hints(&self) -> fn(&[u8]) -> bool {
        |_| true
    }

    /// A connection is given up when nothing has come on it for half of the session's timeout, or of `connect_timeout` if that is less.
    fn noticed_within(&self) -> Duration {
        Duration::from_secs(6)
    }

    fn framing(&self) -> Arc<dyn Framing> {
        Arc::new(Framed(|| Box::new(Packets::default())))
    }

    fn requests(&self, verb: Verb) -> &'static [&'static str] {
        match verb {
            Verb::Enter => &["create", "list", "get data"],
            Verb::Renew => &["set data", "exists"],
            Verb::Leave => &["delete"],
        }
    }
}

impl ZkHarness {
    fn config(&self) -> ZkConfig {
        ZkConfig::from_url(&self.url).expect("the URL of a test server is good")
    }
}
