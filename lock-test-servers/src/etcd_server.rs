//! [`EtcdServer`]: an etcd server of one test, alone or as a member of a cluster.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use lock_conformance::{Port, ServerProgram, TestServer};

use crate::{ask::http_get, etcd};

/// Names the image of the servers that run in containers (`LOCK_TEST_SERVERS=docker`).
const IMAGE_VARIABLE: &str = "LOCK_TEST_ETCD_IMAGE";

/// Names the program to start, if not the default one.
const BINARY_VARIABLE: &str = "DISTLOCK_TEST_ETCD";

/// A server on ports of its own, with a directory of its own. Dropping it ends it.
#[derive(Debug)]
pub struct EtcdServer {
    // The first field, so that it ends before its ports are released.
    process: TestServer,
    client_port: Port,
    peer_port: Port,
    name: String,
    scheme: &'static str,
    arguments: Vec<String>,
}

impl EtcdServer {
    /// A server that does not run yet, and serves clients by `scheme`, which is `http` or `https`.
    ///
    /// # Panics
    /// If there is no directory or no port for it.
    #[must_use]
    pub fn new(scheme: &'static str) -> Self {
        let (process, client_port, peer_port) = (TestServer::new("etcd"), Port::reserve(), Port::reserve());
        // A name that no other server has.
        let name = process.directory().file_name().map(|name| name.display().to_string()).unwrap_or_default();
        Self { process, client_port, peer_port, name, scheme, arguments: Vec::new() }
    }

    /// Starts a server without a cluster, with these additional arguments, and returns when it serves.
    ///
    /// # Panics
    /// If there is no such program, or it does not start.
    pub async fn start(arguments: &[&str]) -> Self {
        loop {
            let mut server = Self::new("http");
            server.with(server.alone());
            server.with(arguments.iter().copied());
            server.launch();
            if server.answers(|| server.is_healthy()).await {
                return server;
            }
        }
    }

    /// Adds arguments for every start.
    pub fn with(&mut self, arguments: impl IntoIterator<Item = impl Into<String>>) {
        self.arguments.extend(arguments.into_iter().map(Into::into));
    }

    /// The arguments of a server that forms a cluster of its own.
    #[must_use]
    pub fn alone(&self) -> [String; 2] {
        etcd::alone(&self.name, self.peer_port.number())
    }

    /// Starts it, without waiting until it serves. If it still runs, it is killed first.
    ///
    /// # Panics
    /// If there is no such program.
    pub fn launch(&self) {
        let (client_port, peer_port) = (self.client_port.number(), self.peer_port.number());
        let mut arguments = etcd::arguments(&self.name, &self.data(), self.scheme, client_port, peer_port);
        arguments.extend_from_slice(&self.arguments);
        self.process.launch(&program(), &arguments);
    }

    /// Returns when the probe `look` succeeds. Returns `false` if another process has one of its ports.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn answers<F>(&self, look: impl FnMut() -> F) -> bool
    where
        F: Future<Output = bool>,
    {
        self.process.answers("address already in use", look).await
    }

    /// Whether it reports that it has a leader and carries out requests. Does not work over TLS.
    async fn is_healthy(&self) -> bool {
        http_get(&self.address(), "/health").await.is_ok_and(|said| said.contains(r#""health":"true""#))
    }

    /// Removes its data. It must not run.
    ///
    /// # Panics
    /// If it cannot be removed.
    pub fn wipe(&self) {
        fs::remove_dir_all(self.data()).expect("the data of our own server can be removed");
    }

    /// Its process, through restarts.
    #[must_use]
    pub fn process(&self) -> &TestServer {
        &self.process
    }

    /// The name of the member, which no other server has.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens for clients.
    #[must_use]
    pub fn client_port(&self) -> u16 {
        self.client_port.number()
    }

    /// Where it listens for the other members.
    #[must_use]
    pub fn peer_port(&self) -> u16 {
        self.peer_port.number()
    }

    /// Where clients find it: `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.client_port)
    }

    fn data(&self) -> PathBuf {
        self.process.directory().join("data")
    }
}

/// The program on this machine, or one in a container.
fn program() -> ServerProgram {
    if ServerProgram::wants_containers() {
        let default = "gcr.io/etcd-development/etcd:v3.7.3";
        return ServerProgram::in_container(IMAGE_VARIABLE, default, ["etcd"]);
    }
    ServerProgram::local([binary().display().to_string()])
}

/// The program on this machine: the one that [`BINARY_VARIABLE`] names, or else the first that `scripts/setup` has installed.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let default = || etcd::installed().unwrap_or_else(|why| panic!("{why}"));
        let binary = env::var_os(BINARY_VARIABLE).map_or_else(default, PathBuf::from);
        let version = Command::new(&binary).arg("--version").stdout(Stdio::null()).status();
        assert!(
            version.is_ok_and(|status| status.success()),
            "there is no etcd server at `{}`, and without a server no test can pass: run scripts/setup, or name \
             one in {BINARY_VARIABLE} or, by its URL, in {}",
            binary.display(),
            etcd::URL_VARIABLE
        );
        binary
    })
}
