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

/// More arguments, for a server that also speaks TLS, on this port. The files `server.pem`, `server-key.pem` and `ca.pem` of the folder are its
/// certificate, its key, and the authority that it trusts. Clients must show a certificate if `auth_clients` is `yes`, and need none if it
/// is `no`.
#[must_use]
pub fn tls_arguments(port: u16, folder: &Path, auth_clients: &str) -> [String; 10] {
    let path = |file: &str| folder.join(file).display().to_string();
    let [certificate, key, authority] = ["server.pem", "server-key.pem", "ca.pem"].map(path);
    [
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &authority,
        "--tls-auth-clients",
        auth_clients,
    ]
    .map(str::to_owned)
}
