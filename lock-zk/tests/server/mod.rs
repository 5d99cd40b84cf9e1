//! Real servers for tests: processes of our own, shared or not, alone or as an ensemble; or one that is only known by its URL.
#![allow(dead_code, unused_imports, reason = "each of the test programs uses a part")]

mod admin;
mod close_session;
mod curator;
pub(crate) mod declared;
mod ensemble;
mod footprint;
mod server_by_url;
mod test_server;
mod zk_server;

use lock_conformance::{Case, ServerControl, unique};
use lock_test_servers::zookeeper::address;
pub(crate) use lock_test_servers::zookeeper::url;

pub(crate) use self::{
    admin::Admin,
    curator::Curator,
    ensemble::{Ensemble, SHORTER},
    server_by_url::ServerByUrl,
    test_server::{Containers, TestServer},
    zk_server::{PATIENCE, TICK, ZkServer},
};

/// A server for one case, and the URL that clients reach it by.
///
/// # Panics
/// If there is none: a case must not pass without its server.
pub(crate) async fn for_one_case(case: &Case) -> (String, Box<dyn ServerControl>) {
    let Some(address) = address() else {
        let server = if case.shows(DISTURBING) {
            TestServer::own().await
        } else if case.shows(ONE_REQUEST) {
            TestServer::shared_with(Containers::Kept).await
        } else {
            TestServer::shared().await
        };
        let user = if case.shows(CREDENTIALS) { Admin::user() } else { String::new() };
        let server = if case.shows(CUTS) { server.behind_proxy() } else { server };
        return (server.url_of(&user), Box::new(server));
    };
    let server = ServerByUrl::new(&address, &unique());
    // The client crate has one thread for all sessions of a process, which the first session starts.
    drop(Admin::new(&address, "").client().await);
    (server.url(), Box::new(server))
}

/// The labels of the cases that end or stop a server, or measure all that it uses, down to its memory.
const DISTURBING: &[&str] = &["L06", "T09", "T10", "T21", "PR35", "G01", "G02", "G03", "G04", "G05", "G06"];
/// The labels of the cases that cut clients off from their hints.
const CUTS: &[&str] = &["L12", "PR14", "T24"];
/// The labels of the cases in which a single request has to be enough to join a queue, because its answer does not arrive.
const ONE_REQUEST: &[&str] = &["T02", "T05"];
/// The labels of the cases in which clients need a user of their own, who can be locked out.
const CREDENTIALS: &[&str] = &["T24"];
