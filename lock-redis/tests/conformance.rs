//! The suite on a real Redis server.

mod server;

use std::sync::Arc;

use async_trait::async_trait;
use lock_conformance::{Case, Declared, Harness, ServerControl};
use lock_core::{Backend, Keeper};
use lock_redis::{Redis, RedisConfig};

lock_conformance::suite!(RedisHarness);

/// The label of the cases that restart a server with its data.
const RESTART: &str = "L06";

/// A server for one case, or a prefix on the one that a URL names.
#[derive(Debug)]
struct RedisHarness {
    url: String,
    /// Only where the case itself runs, not in its contenders.
    server: Option<Box<dyn ServerControl>>,
}

#[async_trait]
impl Harness for RedisHarness {
    fn store() -> &'static str {
        if server::url().is_some() { "redis by url" } else { "redis" }
    }

    fn declared() -> &'static [Declared] {
        const NOT_OURS: &str = server::NOT_OURS;
        if server::url().is_none() {
            return &[];
        }
        &[Declared { id: "L06", reason: NOT_OURS }, Declared { id: "F05", reason: NOT_OURS }]
    }

    async fn start(case: &'static Case) -> Self {
        let (url, server) = server::for_one_case(case.ids.contains(&RESTART)).await;
        Self { url, server: Some(server) }
    }

    async fn attach(address: &str) -> Self {
        Self { url: address.to_owned(), server: None }
    }

    fn address(&self) -> Option<String> {
        Some(self.url.clone())
    }

    async fn connect(&self, keeper: &Keeper) -> Arc<dyn Backend> {
        let config = RedisConfig::from_url(&self.url).expect("the URL of a test server is good");
        Arc::new(Redis::new(config, keeper).expect("the configuration is good"))
    }

    fn server(&self) -> &dyn ServerControl {
        self.server.as_deref().expect("a contender leaves the server alone")
    }
}
