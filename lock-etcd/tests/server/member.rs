//! [`Member`]: a server process with its ports and its directory, alone or one of a cluster.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use lock_conformance::{Port, ServerProcess};
use lock_core::sync::{Mutex, MutexGuard};

use super::{Admin, process::program};

/// How long a server may take to start on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A server that can be treated badly, because it is ours. Dropping it ends it, and removes what it kept.
#[derive(Debug)]
pub(crate) struct Member {
    name: String,
    client_port: Port,
    peer_port: Port,
    scheme: &'static str,
    directory: PathBuf,
    /// What is added to the arguments of every server.
    arguments: Vec<String>,
    process: Mutex<Option<ServerProcess>>,
}

impl Member {
    /// A member on ports of its own, which does not run yet.
    pub(super) fn new(scheme: &'static str) -> Self {
        let (name, client_port, peer_port) = (super::unique(), Port::reserve(), Port::reserve());
        let directory = std::env::temp_dir().join(format!("distlock-etcd-{client_port}-{name}"));
        fs::create_dir(&directory).expect("a directory for the server can be made");
        let (arguments, process) = (Vec::new(), Mutex::default());
        Self { name, client_port, peer_port, scheme, directory, arguments, process }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where it listens for clients.
    pub(crate) fn client_port(&self) -> u16 {
        self.client_port.number()
    }

    /// Where it listens for the other members.
    pub(super) fn peer_port(&self) -> u16 {
        self.peer_port.number()
    }

    /// Where it may keep something that is no data.
    pub(super) fn directory(&self) -> &PathBuf {
        &self.directory
    }

    /// The arguments of a server that is no member of any cluster but its own.
    pub(super) fn alone(&self) -> [String; 2] {
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        [format!("--initial-advertise-peer-urls={peer}"), format!("--initial-cluster={}={peer}", self.name)]
    }

    /// Gives the server these arguments, too, whenever it is started.
    pub(super) fn with(&mut self, arguments: impl IntoIterator<Item = impl Into<String>>) {
        self.arguments.extend(arguments.into_iter().map(Into::into));
    }

    /// Starts the server, which may not answer yet.
    pub(super) fn launch(&self) {
        let Self { scheme, client_port, peer_port, .. } = self;
        let mut arguments: Vec<String> = vec![
            format!("--name={}", self.name),
            format!("--data-dir={}", self.data().display()),
            format!("--listen-client-urls={scheme}://127.0.0.1:{client_port}"),
            format!("--advertise-client-urls={scheme}://127.0.0.1:{client_port}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
            // What was written outlives a kill of the process, and the operating system is not killed.
            "--unsafe-no-fsync".to_owned(),
            // The shortest lease is then 1 s, and a new leader is there soon.
            "--heartbeat-interval=50".to_owned(),
            "--election-timeout=500".to_owned(),
            // To check a password is no work for a busy machine.
            "--bcrypt-cost=4".to_owned(),
            "--log-level=warn".to_owned(),
            "--logger=zap".to_owned(),
        ];
        arguments.extend_from_slice(&self.arguments);
        *self.process() =
            Some(ServerProcess::start(&program(), &arguments, &self.directory.join("server.log")));
    }

    /// Returns when the server answers, or, with `false`, when somebody else has taken one of its ports.
    pub(super) async fn answers(&self, admin: &Admin) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            // Our own server, and not another one on the same port.
            if admin.name_of_server().await.is_some_and(|name| name == self.name) {
                return true;
            }
            let log = self.log();
            let runs = self.process().as_ref().is_some_and(ServerProcess::is_alive);
            if !runs && log.contains("address already in use") {
                return false;
            }
            assert!(runs && Instant::now() < end, "the server did not start:\n{log}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends it at once.
    pub(crate) fn kill(&self) {
        drop(self.process().take());
    }

    /// Ends it in an orderly way.
    pub(crate) async fn stop(&self) {
        self.running(ServerProcess::terminate);
        let end = Instant::now() + PATIENCE;
        while self.process().as_ref().is_some_and(ServerProcess::is_alive) {
            assert!(Instant::now() < end, "the server did not end:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.kill();
    }

    /// Stops it without ending it. It stands still when this returns.
    pub(crate) fn pause(&self) {
        self.running(ServerProcess::pause);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.running(ServerProcess::resume);
    }

    /// Removes what it kept. Only while it does not run.
    pub(super) fn wipe(&self) {
        fs::remove_dir_all(self.data()).expect("the data of our own server can be removed");
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn log(&self) -> String {
        // Without a log there is nothing to show.
        fs::read_to_string(self.directory.join("server.log")).unwrap_or_default()
    }

    fn running(&self, order: impl FnOnce(&ServerProcess)) {
        order(self.process().as_ref().expect("the server runs"));
    }

    fn process(&self) -> MutexGuard<'_, Option<ServerProcess>> {
        self.process.lock()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        // What is left in a temporary directory harms nobody.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
