//! Real servers for tests: processes of the test, alone or as a cluster, or one that is only known by its URL.
#![allow(dead_code, unused_imports, reason = "each of the test programs uses a part")]

mod admin;
mod by_url;
mod cluster;
pub(crate) mod declared;
mod member;
mod requests;
mod test_server;
mod witness;

use std::net::ToSocketAddrs;

use lock_conformance::{Case, Proxy, ServerControl};
use lock_test_servers::etcd::URL_VARIABLE;
pub(crate) use lock_test_servers::etcd::url;

pub(crate) use self::{
    admin::Admin,
    by_url::ServerByUrl,
    cluster::Cluster,
    requests::{answered, quiet, requests, watch_streams},
    test_server::TestServer,
    witness::Witness,
};

/// A server for one case, and the URL that clients reach it by.
///
/// # Panics
/// If there is none: a case must not pass without its server.
pub(crate) async fn for_one_case(case: &Case) -> (String, Box<dyn ServerControl>) {
    let shows = |labels: &[&str]| case.ids.iter().any(|id| labels.contains(id));
    let Some(base) = url() else {
        let server = TestServer::start("case").await;
        let user = if shows(CREDENTIALS) { server.admin().add_user().await } else { "" };
        let server = if shows(CUTS) { server.behind_proxy() } else { server };
        return (format!("etcd://{user}{}/case", server.address()), Box::new(server));
    };
    let address = base.strip_prefix("etcd://").map(|address| address.trim_end_matches('/'));
    let address = address.filter(|address| !address.contains(['/', '@', '?', ',']));
    let address = address.unwrap_or_else(|| panic!("{URL_VARIABLE} has to be etcd://host:port"));
    let server = ServerByUrl::new(address, &unique());
    (server.url(), Box::new(server))
}

/// The labels of the cases that cut clients off from their hints, or count their connections.
const CUTS: &[&str] = &["L12", "PR14", "G05"];
/// The labels of the cases in which clients need a user of their own, who can be locked out.
const CREDENTIALS: &[&str] = &["T24"];

/// A proxy in front of a server, whose connections carry commands and hints alike.
pub(crate) fn proxy(address: &str) -> Proxy {
    let mut found = address.to_socket_addrs().expect("the server has an address");
    Proxy::start(found.next().expect("the server has an address"), |_| true)
}

/// Unique digits.
pub(crate) fn unique() -> String {
    use lock_core::{Entropy, SystemEntropy};
    format!("{:016x}", SystemEntropy.bits() as u64)
}
