//! [`Server`]: a server process for tests.

use std::fs;
#[cfg(any(feature = "etcd", feature = "zk"))]
use std::{
    process::Command,
    sync::{Arc, Weak},
};

#[cfg(any(feature = "etcd", feature = "zk"))]
use distlock::sync::Mutex;
use lock_conformance::{Port, ServerProcess, ServerProgram};
use tempfile::TempDir;

use crate::process::{outcome, until};

/// A server on a port of its own, with a folder of its own. Dropping it ends it.
pub(crate) struct Server {
    pub(crate) port: Port,
    process: ServerProcess,
    folder: TempDir,
}

impl Server {
    pub(crate) fn redis() -> Self {
        let port = Port::reserve();
        let folder = tempfile::tempdir().expect("a folder for the server can be made");
        let arguments = [
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            &folder.path().display().to_string(),
        ];
        let program = ServerProgram::local(["redis-server"]);
        Self::start(&program, &arguments.map(str::to_owned), port, folder, "redis")
    }

    /// One server for all tests that run at the same time: each has a prefix of its own. The last test stops it.
    #[cfg(feature = "etcd")]
    pub(crate) fn etcd() -> Arc<Self> {
        static SHARED: Shared = Shared::new(Weak::new());
        shared(&SHARED, || {
            let (client, peer) = (Port::reserve(), Port::reserve());
            let folder = tempfile::tempdir().expect("a folder for the server can be made");
            let arguments = [
                format!("--data-dir={}", folder.path().join("data").display()),
                format!("--listen-client-urls=http://127.0.0.1:{client}"),
                format!("--advertise-client-urls=http://127.0.0.1:{client}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
                "--name=cli".to_owned(),
                format!("--initial-cluster=cli=http://127.0.0.1:{peer}"),
                // The page cache survives the end of the process.
                "--unsafe-no-fsync".to_owned(),
            ];
            let program = ServerProgram::local([found_by("scripts/etcd/setup")]);
            Self::start(&program, &arguments, client, folder, "etcd")
        })
    }

    /// The same with ZooKeeper. The short tick allows sessions as short as the ttl of a test.
    #[cfg(feature = "zk")]
    pub(crate) fn zk() -> Arc<Self> {
        static SHARED: Shared = Shared::new(Weak::new());
        shared(&SHARED, || {
            let port = Port::reserve();
            let folder = tempfile::tempdir().expect("a folder for the server can be made");
            let file = folder.path().join("zoo.cfg");
            let settings = format!(
                "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=100\nmaxSessionTimeout=86400000\n\
                 maxClientCnxns=0\nadmin.enableServer=false\n",
                folder.path().join("data").display()
            );
            fs::write(&file, settings).expect("a folder of our own can be written to");
            let java =
                ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no"];
            let main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
            let mut arguments = java.map(str::to_owned).to_vec();
            arguments.extend(["-cp".to_owned(), found_by("scripts/zk/setup"), main.to_owned()]);
            arguments.push(file.display().to_string());
            Self::start(&ServerProgram::local(["java"]), &arguments, port, folder, "zk")
        })
    }

    /// Starts a program that `scripts/setup` installs, and returns when it answers.
    fn start(
        program: &ServerProgram,
        arguments: &[String],
        port: Port,
        folder: TempDir,
        scheme: &str,
    ) -> Self {
        let process = ServerProcess::start(program, arguments, &folder.path().join("server.log"));
        let server = Self { port, process, folder };
        let url = format!("{scheme}://127.0.0.1:{}", server.port);
        until("the server", || {
            let log = || fs::read_to_string(server.folder.path().join("server.log")).unwrap_or_default();
            assert!(
                server.process.is_alive(),
                "{program} has ended (is it installed? scripts/setup):\n{}",
                log()
            );
            outcome(&url, &["list"]).code == Some(0)
        });
        server
    }
}

#[cfg(any(feature = "etcd", feature = "zk"))]
type Shared = Mutex<Weak<Server>>;

#[cfg(any(feature = "etcd", feature = "zk"))]
fn shared(shared: &Shared, start: impl FnOnce() -> Server) -> Arc<Server> {
    // If a test could not start the server, it has failed, and the next test tries again.
    let mut shared = shared.lock();
    let server = shared.upgrade().unwrap_or_else(|| Arc::new(start()));
    *shared = Arc::downgrade(&server);
    server
}

/// The first line that a script of this repository prints.
#[cfg(any(feature = "etcd", feature = "zk"))]
fn found_by(script: &str) -> String {
    let script = format!("{}/../{script}", env!("CARGO_MANIFEST_DIR"));
    let printed = Command::new(&script).arg("--print").output();
    let printed = printed.unwrap_or_else(|error| panic!("{script} cannot be run: {error}"));
    String::from_utf8_lossy(&printed.stdout).lines().next().unwrap_or_default().to_owned()
}
