//! The suite on a real Redis server.

mod bug_bank;
mod framing;
mod server;
#[path = "common/slots.rs"]
mod slots;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_conformance::{Case, Declared, Framed, Framing, Harness, ServerControl, Verb, Wire, resolve};
use lock_core::{Backend, Keeper};
use lock_redis::{Redis, RedisConfig};

use self::{framing::Resp, server::declared};

lock_conformance::suite!(RedisHarness);

/// A server for one case, or a prefix on the one that a URL names.
#[derive(Debug)]
struct RedisHarness {
    url: String,
    /// Only in the process of the case itself, not in its contenders.
    server: Option<Box<dyn ServerControl>>,
}

#[async_trait]
impl Harness for RedisHarness {
    fn store() -> &'static str {
        if server::url().is_some() { "redis by url" } else { "redis" }
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
        Arc::new(Redis::new(self.config(), keeper).expect("the configuration is good"))
    }

    fn wire(&self) -> Option<&dyn Wire> {
        Some(self)
    }

    fn server(&self) -> &dyn ServerControl {
        self.server.as_deref().expect("a contender leaves the server alone")
    }
}

#[async_trait]
impl Wire for RedisHarness {
    fn server(&self) -> SocketAddr {
        let RedisConfig { host, port, .. } = self.config();
        resolve((host.as_str(), port))
    }

    async fn connect_by(&self, keeper: &Keeper, address: SocketAddr) -> Arc<dyn Backend> {
        let mut config = self.config();
        (config.host, config.port) = (address.ip().to_string(), address.port());
        Arc::new(Redis::new(config, keeper).expect("the configuration is good"))
    }

    fn carries_hints(&self) -> fn(&[u8]) -> bool {
        |sent| sent.windows(9).any(|word| word.eq_ignore_ascii_case(b"SUBSCRIBE"))
    }

    fn noticed_within(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn framing(&self) -> Arc<dyn Framing> {
        Arc::new(Framed(|| Box::new(Resp::default())))
    }

    /// Each is a script, which the framing knows by its digest.
    fn requests(&self, verb: Verb) -> &'static [&'static str] {
        match verb {
            Verb::Enter => &["enter"],
            Verb::Renew => &["renew"],
            Verb::Leave => &["leave"],
        }
    }
}

impl RedisHarness {
    fn config(&self) -> RedisConfig {
        RedisConfig::from_url(&self.url).expect("the URL of a test server is good")
    }
}
