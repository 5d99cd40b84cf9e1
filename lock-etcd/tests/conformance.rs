//! The suite on a real etcd server, a test that takes as long, and some with the suite's relay.

mod common;
mod framing;
mod server;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use common::{Client, LATE, options};
use framing::Grpc;
use lock_conformance::{
    Case, Declared, Framing, Gate, Harness, Relay, ServerControl, Verb, Wire, audit::eventually, resolve,
};
use lock_core::{Backend, BootTime, Claim, Entry, EntryId, Keeper, Standing, Step, WaitMode};
use lock_etcd::{Etcd, EtcdConfig};
use server::{TestServer, declared};

lock_conformance::suite!(EtcdHarness);

/// A server for one case, or a prefix on the one that a URL names.
#[derive(Debug)]
struct EtcdHarness {
    url: String,
    /// Only in the process of the case itself, not in its contenders.
    server: Option<Box<dyn ServerControl>>,
}

#[async_trait]
impl Harness for EtcdHarness {
    fn store() -> &'static str {
        if server::url().is_some() { "etcd by url" } else { "etcd" }
    }

    fn cuts_show_nothing() -> Option<&'static str> {
        Some("a new stream catches up with what happened to the keys that were watched")
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
        Arc::new(Etcd::new(self.config(), keeper).expect("the configuration is good"))
    }

    fn wire(&self) -> Option<&dyn Wire> {
        Some(self)
    }

    fn server(&self) -> &dyn ServerControl {
        self.server.as_deref().expect("a contender leaves the server alone")
    }
}

#[async_trait]
impl Wire for EtcdHarness {
    fn server(&self) -> SocketAddr {
        resolve(self.config().endpoints[0].to_string())
    }

    async fn connect_by(&self, keeper: &Keeper, address: SocketAddr) -> Arc<dyn Backend> {
        let mut config = self.config();
        config.endpoints = vec![address.to_string().parse().expect("an address is an endpoint")];
        Arc::new(Etcd::new(config, keeper).expect("the configuration is good"))
    }

    fn carries_hints(&self) -> fn(&[u8]) -> bool {
        |_| true
    }

    /// One and a half heartbeats: see `EtcdConfig::heartbeat`.
    fn noticed_within(&self) -> Duration {
        self.config().heartbeat * 3 / 2
    }

    fn framing(&self) -> Arc<dyn Framing> {
        Arc::new(Grpc)
    }

    fn requests(&self, verb: Verb) -> &'static [&'static str] {
        match verb {
            Verb::Enter => &["/etcdserverpb.KV/Txn"],
            Verb::Renew => &["/etcdserverpb.KV/Txn", "/etcdserverpb.Lease/LeaseKeepAlive"],
            Verb::Leave => &["/etcdserverpb.KV/DeleteRange"],
        }
    }
}

impl EtcdHarness {
    fn config(&self) -> EtcdConfig {
        EtcdConfig::from_url(&self.url).expect("the URL of a test server is good")
    }
}

/// E12: the server disconnects a client that pings too often. It allows a ping every 5 s on a connection with a stream, and
/// hardly any on a connection without one, which it notices after 40 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_nothing_keeps_its_connections() {
    const LONG: Duration = Duration::from_secs(3600);
    let server = TestServer::start("case").await.behind_proxy();
    // A request with an answer would excuse the pings before it.
    let client = Client::new(&format!("etcd://{}/case?heartbeat=1h", server.address()));
    let guard = client.take("job", &options().ttl(LONG)).await;
    let connections = || (server.proxy().opened(), server.proxy().open());
    let began = (Instant::now(), connections());
    assert_eq!(began.1, (2, 2), "that of this runtime, and that of the keeper with its streams");
    while began.0.elapsed() < Duration::from_secs(44) {
        assert_eq!(connections(), began.1, "after {:?}", began.0.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    guard.release().await.unwrap().confirmed().unwrap();
    assert_eq!(connections(), began.1);
}

/// A lock beside it keeps the session alive, and with it the entry, which nobody refreshes.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_removed_in_time_though_an_inspection_has_no_answer() {
    const INSPECTION: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
    const TTL: Duration = Duration::from_secs(4);
    let server = TestServer::start("case").await;
    let relay = Relay::start(resolve(server.address()), Arc::new(Grpc));
    let client = Client::new(&format!("etcd://{}/case?command_timeout=60s&heartbeat=1h", relay.address()));
    // What shows a queue asks for leases, too.
    let beside = Client::new(&format!("etcd://{}/case", server.address()));
    let gate = Gate::new();
    relay.hold_only(INSPECTION, &gate);
    let guard = client.take("beside", &options().ttl(TTL)).await;
    eventually("an inspection", LATE, || async { relay.held().contains_key(INSPECTION) }).await;
    let entry = Entry::new(common::name("job"), EntryId::new(1), Claim::mutex(), TTL);
    let standing = client.backend.enter(&entry, Step::Create, WaitMode::Queue).await.unwrap();
    assert!(matches!(standing, Standing::Admitted { .. }), "{standing:?}");
    beside.await_queue("job", 1).await;
    beside.await_queue("job", 0).await;
    gate.open();
    drop(guard);
}

/// A grant that was bought with an old proof would leave its holder little time.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_not_granted_under_an_old_proof_while_a_new_one_can_be_had() {
    let (unproved, opened) = (UnprovedSession::start().await, Duration::from_secs(4));
    let (granted, ()) = tokio::join!(unproved.enter(), async {
        // By then the first proof was given up, a second ago, and the second one is in flight for two seconds more.
        tokio::time::sleep(opened).await;
        unproved.gate.open();
    });
    let left = granted.expect("a grant").since(unproved.client.keeper.now());
    assert!(left > UnprovedSession::TTL / 2, "{left:?}");
}

/// The proof before is still good.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_granted_under_an_old_proof_if_no_new_one_can_be_had() {
    let unproved = UnprovedSession::start().await;
    let granted = unproved.enter().await.expect("a grant");
    let left = granted.since(unproved.client.keeper.now());
    assert!(!left.is_zero() && left < UnprovedSession::TTL / 2, "{left:?}");
    unproved.gate.open();
}

/// A client whose session was proved more than half a ttl ago, because no answer to a proof has come since.
struct UnprovedSession {
    client: Client,
    gate: Gate,
    _server: TestServer,
    _relay: Relay,
}

impl UnprovedSession {
    const TTL: Duration = Duration::from_secs(30);

    async fn start() -> Self {
        let server = TestServer::start("case").await;
        let relay = Relay::start(resolve(server.address()), Arc::new(Grpc));
        let client = Client::new(&format!("etcd://{}/case?command_timeout=3s&heartbeat=1h", relay.address()));
        let gate = Gate::new();
        relay.hold_only("/etcdserverpb.Lease/LeaseKeepAlive", &gate);
        let unproved = Self { client, gate, _server: server, _relay: relay };
        // This opens the session.
        unproved.enter_as("first", 1).await.expect("a grant");
        tokio::time::sleep(Self::TTL / 2 + Duration::from_secs(1)).await;
        unproved
    }

    /// Until when the grant is valid, unless the lock is not granted.
    async fn enter(&self) -> Option<BootTime> {
        self.enter_as("job", 2).await
    }

    async fn enter_as(&self, name: &str, id: u128) -> Option<BootTime> {
        let entry = Entry::new(common::name(name), EntryId::new(id), Claim::mutex(), Self::TTL);
        match self.client.backend.enter(&entry, Step::Create, WaitMode::Queue).await.unwrap() {
            Standing::Admitted { valid_until, .. } => Some(valid_until),
            _ => None,
        }
    }
}
