//! The suite on a real PostgreSQL server.

mod declared;
mod framing;
mod reconnecting_driver;
mod repeating_driver;
mod server;

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use lock_conformance::{Case, Declared, Framed, Framing, Harness, ServerControl, Verb, Wire};
use lock_core::{Backend, Keeper};
use tokio_postgres::Config;

use self::{framing::Messages, server::TestSchema};

lock_conformance::suite!(PostgresHarness);

/// A schema for one case.
#[derive(Debug)]
struct PostgresHarness {
    url: String,
    /// Only in the process of the case itself, not in its contenders.
    schema: Option<TestSchema>,
}

#[async_trait]
impl Harness for PostgresHarness {
    fn store() -> &'static str {
        "postgres"
    }

    fn cuts_show_nothing() -> Option<&'static str> {
        Some("a cut breaks the connections that releases go over, too: they come when waiters listen again")
    }

    fn declared() -> &'static [Declared] {
        declared::OWN
    }

    async fn start(case: &'static Case) -> Self {
        let schema = TestSchema::for_one_case(case).await;
        Self { url: schema.url(), schema: Some(schema) }
    }

    async fn attach(address: &str) -> Self {
        Self { url: address.to_owned(), schema: None }
    }

    fn address(&self) -> Option<String> {
        Some(self.url.clone())
    }

    async fn connect(&self, keeper: &Keeper) -> Arc<dyn Backend> {
        Arc::new(server::client(self.config(), keeper))
    }

    fn wire(&self) -> Option<&dyn Wire> {
        Some(self)
    }

    fn server(&self) -> &dyn ServerControl {
        self.schema.as_ref().expect("a contender leaves the server alone")
    }
}

#[async_trait]
impl Wire for PostgresHarness {
    fn server(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.config().get_ports()[0]).into()
    }

    async fn connect_by(&self, keeper: &Keeper, address: SocketAddr) -> Arc<dyn Backend> {
        let mut config = Config::new();
        let ours = self.config();
        config.host(address.ip().to_string()).port(address.port()).dbname("postgres");
        config.user(ours.get_user().expect("it is in the URL"));
        config.application_name(server::schema(&ours));
        Arc::new(server::client(config, keeper))
    }

    /// Requests and hints share one connection.
    fn carries_hints(&self) -> fn(&[u8]) -> bool {
        |_| true
    }

    fn noticed_within(&self) -> Duration {
        Duration::from_secs(3)
    }

    fn framing(&self) -> Arc<dyn Framing> {
        Arc::new(Framed(|| Box::new(Messages::default())))
    }

    fn requests(&self, verb: Verb) -> &'static [&'static str] {
        match verb {
            Verb::Enter => &["SELECT enter"],
            Verb::Renew => &["SELECT renew"],
            Verb::Leave => &["SELECT leave"],
        }
    }
}

impl PostgresHarness {
    fn config(&self) -> Config {
        self.url.parse().expect("the URL of a test server is good")
    }
}
