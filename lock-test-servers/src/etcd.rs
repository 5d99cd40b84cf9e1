//! How etcd is started.

use std::path::{Path, PathBuf};

use crate::{
    setup::printed_by,
    variable::{host_and_port, variable},
};

/// Names a running server to use instead of starting one, such as a service container: `etcd://host:port`. It may contain other
/// data: every test uses a prefix of its own.
pub const URL_VARIABLE: &str = "DISTLOCK_TEST_ETCD_URL";

/// The server that [`URL_VARIABLE`] names.
#[must_use]
pub fn url() -> Option<String> {
    variable(URL_VARIABLE)
}

/// Where that server listens: `host:port`.
///
/// # Panics
/// If the URL names anything else.
#[must_use]
pub fn address() -> Option<String> {
    host_and_port(URL_VARIABLE, "etcd://")
}

/// The program on this machine: the first one that `scripts/setup` has installed. Empty if there is none.
///
/// # Errors
/// If `scripts/etcd/setup` cannot be run.
pub fn installed() -> Result<PathBuf, String> {
    Ok(printed_by("scripts/etcd/setup")?.into_iter().next().unwrap_or_default().into())
}

/// The arguments of every server: its name, its data, and its ports on the loopback interface. It serves clients by `scheme`, which is
/// `http` or `https`.
#[must_use]
pub fn arguments(name: &str, data: &Path, scheme: &str, client_port: u16, peer_port: u16) -> Vec<String> {
    vec![
        format!("--name={name}"),
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls={scheme}://127.0.0.1:{client_port}"),
        format!("--advertise-client-urls={scheme}://127.0.0.1:{client_port}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
    ]
}

/// The arguments of a server that forms a cluster of its own.
#[must_use]
pub fn alone(name: &str, peer_port: u16) -> [String; 2] {
    let peer = format!("http://127.0.0.1:{peer_port}");
    [format!("--initial-advertise-peer-urls={peer}"), format!("--initial-cluster={name}={peer}")]
}
