//! Real servers for tests: a process of the test, or a server that is only known by its URL.

mod admin;
pub(crate) mod declared;
mod server_by_url;
mod test_server;

use lock_conformance::{Case, ServerControl, unique};
use lock_test_servers::redis::URL_VARIABLE;
pub(crate) use lock_test_servers::redis::url;

use self::{admin::Admin, server_by_url::ServerByUrl, test_server::TestServer};

/// A server for one case, and the URL that clients reach it by.
///
/// # Panics
/// If there is none: a case must not pass without its server.
pub(crate) async fn for_one_case(case: &Case) -> (String, Box<dyn ServerControl>) {
    let Some(base) = url() else {
        let server = TestServer::start(case.shows(RESTARTS)).await;
        let address = format!("127.0.0.1:{}/0", server.port());
        let admin = Admin::new(&format!("redis://{address}"), PREFIX, CLIENT_NAME);
        let user = if case.shows(CREDENTIALS) { admin.add_user() } else { String::new() };
        let url = with_parameters(&format!("redis://{user}{address}"), PREFIX, CLIENT_NAME);
        return (url, Box::new(server.with_admin(admin)));
    };
    let run = unique();
    let (prefix, client_name) = (format!("{run}:"), format!("{CLIENT_NAME}-{run}"));
    let admin = Admin::new(&base, &prefix, &client_name);
    (with_parameters(&base, &prefix, &client_name), Box::new(ServerByUrl::new(admin)))
}

/// The labels of the cases that restart a server with its data.
const RESTARTS: &[&str] = &["L06", "T21"];
/// The labels of the cases in which clients need a user of their own, who can be locked out.
const CREDENTIALS: &[&str] = &["T24"];

const PREFIX: &str = "case:";
const CLIENT_NAME: &str = "distlock-test";

fn with_parameters(url: &str, prefix: &str, client_name: &str) -> String {
    assert!(!url.contains('?'), "{URL_VARIABLE} takes a URL without parameters; the tests add their own");
    format!("{url}?prefix={prefix}&client_name={client_name}")
}
