//! [`ZooKeeperServer`]: a ZooKeeper server of one test, alone or as a member of an ensemble.

use std::{fs, path::PathBuf, time::Duration};

use lock_conformance::{Port, TestServer};
use tokio::time::timeout;

use crate::{Preload, ServerClock, ServerDisk, ask::ask, java, zookeeper};

/// A server on a port of its own, with a directory of its own. Dropping it ends it.
#[derive(Debug)]
pub struct ZooKeeperServer {
    // The first field, so that it ends before its port is released.
    process: TestServer,
    port: Port,
    settings: Vec<String>,
    arguments: Vec<String>,
    preloads: Vec<Preload>,
}

impl ZooKeeperServer {
    /// A server with this tick, which does not run yet.
    ///
    /// # Panics
    /// If there is no directory or no port for it.
    #[must_use]
    pub fn new(tick: Duration) -> Self {
        let (process, port) = (TestServer::new("zk"), Port::reserve());
        let data = process.directory().join("data");
        fs::create_dir(&data).expect("a directory for the data of the server can be made");
        let settings = zookeeper::settings(&data, port.number(), tick);
        Self { process, port, settings, arguments: Vec::new(), preloads: Vec::new() }
    }

    /// Starts a server with these additional settings and Java arguments, and returns when it serves.
    ///
    /// # Panics
    /// If Java or the server is not installed, or it does not start.
    pub async fn start(tick: Duration, settings: &[&str], arguments: &[&str]) -> Self {
        loop {
            let mut server = Self::new(tick);
            server.with(settings.iter().copied());
            server.with_arguments(arguments.iter().copied());
            server.launch();
            if server.answers(|limit| server.serves(limit)).await {
                return server;
            }
        }
    }

    /// Adds settings for every start. A later value replaces an earlier one.
    pub fn with(&mut self, settings: impl IntoIterator<Item = impl Into<String>>) {
        self.settings.extend(settings.into_iter().map(Into::into));
    }

    /// Adds Java arguments for every start.
    pub fn with_arguments(&mut self, arguments: impl IntoIterator<Item = impl Into<String>>) {
        self.arguments.extend(arguments.into_iter().map(Into::into));
    }

    /// Gives it this wall clock, whenever it is started.
    pub fn with_clock(&mut self, clock: &ServerClock) {
        self.preloads.push(clock.preload());
    }

    /// Puts its data on this disk, whenever it is started.
    pub fn with_disk(&mut self, disk: &ServerDisk) {
        self.preloads.push(disk.preload());
    }

    /// Starts it, without waiting until it serves. If it still runs, it is killed first.
    ///
    /// # Panics
    /// If there is no such program.
    pub fn launch(&self) {
        let file = self.process.directory().join("zoo.cfg");
        fs::write(&file, self.settings.join("\n") + "\n").expect("a directory of our own can be written to");
        let mut arguments = self.arguments.clone();
        arguments.extend([zookeeper::MAIN.to_owned(), file.display().to_string()]);
        self.process.launch(&Preload::all(&self.preloads, java::server()), &arguments);
    }

    /// Returns when the probe `look` succeeds. Returns `false` if another process has its port.
    ///
    /// A four-letter command that arrives while the server starts is never answered, and its connection stays open. So the first probes wait
    /// only briefly; `look` gets the time limit.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn answers<F>(&self, mut look: impl FnMut(Duration) -> F) -> bool
    where
        F: Future<Output = bool>,
    {
        let mut next = Duration::from_millis(50);
        let look = || {
            let limit = next;
            next = (next * 5 / 4).min(Duration::from_secs(2));
            look(limit)
        };
        self.process.answers("Address already in use", look).await
    }

    /// Whether it reports within the time limit that it serves clients.
    async fn serves(&self, limit: Duration) -> bool {
        let answer = timeout(limit, ask(&self.address(), "srvr")).await;
        matches!(answer, Ok(Ok(said)) if said.contains("Mode: "))
    }

    /// Removes its data, except its number in an ensemble. It must not run.
    ///
    /// # Panics
    /// If it cannot be removed.
    pub fn wipe(&self) {
        fs::remove_dir_all(self.data().join("version-2")).expect("the data of our own server can be removed");
    }

    /// Its process, through restarts.
    #[must_use]
    pub fn process(&self) -> &TestServer {
        &self.process
    }

    /// Where clients find it: `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Where it keeps its data.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.process.directory().join("data")
    }
}
