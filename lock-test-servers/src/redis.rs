//! How Redis and Valkey are started.

use std::path::Path;

use crate::variable::variable;

/// Names a running server to use instead of starting one, such as a service container: `redis://host:port`. It may contain other
/// data: every test uses a prefix of its own.
pub const URL_VARIABLE: &str = "DISTLOCK_TEST_REDIS_URL";

/// The server that [`URL_VARIABLE`] names.
#[must_use]
pub fn url() -> Option<String> {
    variable(URL_VARIABLE)
}

/// The program on this machine, which is looked for on the `PATH`.
pub const PROGRAM: &str = "redis-server";

/// The arguments of every server: its port on the loopback interface, and its directory. It writes no snapshots.
#[must_use]
pub fn arguments(port: u16, directory: &Path) -> [String; 8] {
    let (port, directory) = (port.to_string(), directory.display().to_string());
    ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", &directory].map(str::to_owned)
}
