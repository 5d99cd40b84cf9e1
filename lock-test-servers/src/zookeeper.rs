//! How ZooKeeper is started.

use std::{path::Path, time::Duration};

use crate::{
    setup::printed_by,
    variable::{host_and_port, variable},
};

/// Names a running server to use instead of starting one, such as a service container: `zk://host:port`. It may contain other
/// data: every test uses a node of its own.
pub const URL_VARIABLE: &str = "DISTLOCK_TEST_ZK_URL";

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
    host_and_port(URL_VARIABLE, "zk://")
}

/// The main class of a server. Its argument is a file with [`settings`].
pub const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// The files that `scripts/setup` has installed.
#[derive(Clone, Debug)]
pub struct Installed {
    /// The class path of the server.
    pub server: String,
    /// The class path of our own programs: see `scripts/zk`.
    pub clients: String,
    /// Java's archive of the classes that a server loads, for the installed Java and the class path of the server alone.
    pub archive: String,
}

/// The files that `scripts/setup` has installed. They may have been removed since.
///
/// # Errors
/// If `scripts/zk/setup` cannot be run, or prints something else.
pub fn installed() -> Result<Installed, String> {
    let printed: Result<[String; 3], _> = printed_by("scripts/zk/setup")?.try_into();
    let [server, clients, archive] = printed.map_err(|_| "scripts/zk/setup does not print three lines")?;
    Ok(Installed { server, clients, archive })
}

/// The settings of every server: its data, its port on the loopback interface, and its tick.
#[must_use]
pub fn settings(data: &Path, port: u16, tick: Duration) -> Vec<String> {
    vec![
        format!("dataDir={}", data.display()),
        format!("clientPort={port}"),
        "clientPortAddress=127.0.0.1".to_owned(),
        format!("tickTime={}", tick.as_millis()),
        "admin.enableServer=false".to_owned(),
    ]
}
