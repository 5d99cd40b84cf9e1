//! Real servers for tests: processes of the test, alone or as a cluster, or one that is only known by its URL.
#![allow(dead_code, unused_imports, reason = "each of the test programs uses a part")]

mod admin;
mod cluster;
pub(crate) mod declared;
mod member;
mod requests;
mod server_by_url;
mod test_server;
mod witness;

use lock_conformance::{Case, ServerControl, unique};
use lock_test_servers::etcd::address;
pub(crate) use lock_test_servers::etcd::url;

pub(crate) use self::{
    admin::Admin,
    cluster::Cluster,
    requests::{answered, quiet, requests, watch_streams},
    server_by_url::ServerByUrl,
    test_server::TestServer,
    witness::Witness,
};

/// A server for one case, and the URL that clients reach it by.
///
/// # Panics
/// If there is none: a case must not pass without its server.
pub(crate) async fn for_one_case(case: &Case) -> (String, Box<dyn ServerControl>) {
    let Some(address) = address() else {
        let server = TestServer::start("case").await;
        let user = if case.shows(CREDENTIALS) { server.admin().add_user().await } else { "" };
        let server = if case.shows(CUTS) { server.behind_proxy() } else { server };
        return (format!("etcd://{user}{}/case", server.address()), Box::new(server));
    };
    let server = ServerByUrl::new(&address, &unique());
    (server.url(), Box::new(server))
}

/// The labels of the cases that cut clients off from their hints, or count their connections.
const CUTS: &[&str] = &["L12", "PR14", "G05"];
/// The labels of the cases in which clients need a user of their own, who can be locked out.
const CREDENTIALS: &[&str] = &["T24"];
