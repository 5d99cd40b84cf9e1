//! A driver that opens a connection for each request, and the case that has to find it. A layer does not know the address of the server,
//! so the bug is in the harness.

use std::{
    net::{SocketAddr, TcpStream},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use lock_conformance::{Case, Declared, Framing, Harness, Layer, Layered, ServerControl, Verb, Wire};
use lock_core::{Backend, BackendError, Creates, Departure, Entry, Keeper, Lease, Renewal};

use crate::PostgresHarness;

/// Each renewal and each leave opens a connection to this address. Looks do not: the case would find those while connections are refused.
#[derive(Debug)]
struct ConnectsForEach(SocketAddr);

impl ConnectsForEach {
    fn connect(&self) {
        // On this machine it opens immediately, or is refused. It is not used.
        drop(TcpStream::connect(self.0));
    }
}

#[async_trait]
impl Layer for ConnectsForEach {
    async fn renew(&self, store: &Arc<dyn Backend>, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        self.connect();
        store.renew(leases).await
    }

    async fn leave(
        &self,
        store: &Arc<dyn Backend>,
        entry: &Entry,
        creates: Creates,
    ) -> Result<Departure, BackendError> {
        self.connect();
        store.leave(entry, creates).await
    }
}

/// A store whose clients do so when they connect through a proxy.
#[derive(Debug)]
struct Unshared(PostgresHarness);

#[async_trait]
impl Harness for Unshared {
    fn store() -> &'static str {
        PostgresHarness::store()
    }

    fn declared() -> &'static [Declared] {
        PostgresHarness::declared()
    }

    async fn start(case: &'static Case) -> Self {
        Self(PostgresHarness::start(case).await)
    }

    async fn attach(address: &str) -> Self {
        Self(PostgresHarness::attach(address).await)
    }

    fn address(&self) -> Option<String> {
        self.0.address()
    }

    async fn connect(&self, keeper: &Keeper) -> Arc<dyn Backend> {
        self.0.connect(keeper).await
    }

    fn wire(&self) -> Option<&dyn Wire> {
        Some(self)
    }

    fn server(&self) -> &dyn ServerControl {
        Harness::server(&self.0)
    }
}

#[async_trait]
impl Wire for Unshared {
    fn server(&self) -> SocketAddr {
        Wire::server(&self.0)
    }

    async fn connect_by(&self, keeper: &Keeper, address: SocketAddr) -> Arc<dyn Backend> {
        let store = self.0.connect_by(keeper, address).await;
        Arc::new(Layered::new(store, Arc::new(ConnectsForEach(address))))
    }

    fn carries_hints(&self) -> fn(&[u8]) -> bool {
        self.0.carries_hints()
    }

    fn noticed_within(&self) -> Duration {
        self.0.noticed_within()
    }

    fn framing(&self) -> Arc<dyn Framing> {
        self.0.framing()
    }

    fn requests(&self, verb: Verb) -> &'static [&'static str] {
        self.0.requests(verb)
    }
}

/// Runs with the cases of this group, beside which less is running.
mod resources {
    use std::sync::Arc;

    use lock_conformance::{Sound, finds};

    use super::Unshared;

    /// The suite shows that the case passes without the bug.
    #[test]
    fn a_driver_that_opens_a_connection_for_each_request_is_found() {
        let (group, case) = ("resources", "a_crowd_comes_back_from_an_outage_over_few_connections");
        let said = finds::<Unshared>(group, case, |_| Arc::new(Sound));
        let said = said.unwrap_or_else(|| panic!("{group}::{case} does not find it"));
        assert!(said.contains("connections of"), "{said}");
    }
}
