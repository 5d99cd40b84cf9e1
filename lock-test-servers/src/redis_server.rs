//! [`RedisServer`]: a Redis or Valkey server of one test.

use std::{
    fs,
    future::ready,
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use lock_conformance::{Port, ServerProgram, TestServer};

use crate::{Preload, ServerClock, ServerDisk, redis};

/// Names the image of the servers that run in containers (`LOCK_TEST_SERVERS=docker`).
const IMAGE_VARIABLE: &str = "LOCK_TEST_REDIS_IMAGE";

/// How long another process may have the port of a server that is started again.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server on a port of its own, with a directory of its own, without snapshots. Dropping it ends it.
#[derive(Debug)]
pub struct RedisServer {
    // The first field, so that it ends before its port is released.
    process: TestServer,
    port: Port,
    arguments: Vec<String>,
    preloads: Vec<Preload>,
}

impl RedisServer {
    /// A server with these additional arguments, which does not run yet.
    ///
    /// # Panics
    /// If there is no directory or no port for it.
    #[must_use]
    pub fn new(arguments: &[&str]) -> Self {
        let (process, port) = (TestServer::new("redis"), Port::reserve());
        let first = redis::arguments(port.number(), process.directory());
        let arguments = first.into_iter().chain(arguments.iter().map(ToString::to_string)).collect();
        Self { process, port, arguments, preloads: Vec::new() }
    }

    /// Starts a server with these additional arguments, and returns when it serves.
    ///
    /// # Panics
    /// If there is no such program, or it does not start.
    pub async fn start(arguments: &[&str]) -> Self {
        loop {
            let server = Self::new(arguments);
            server.launch();
            if server.answers().await {
                return server;
            }
        }
    }

    /// Starts a sentinel that watches nothing. It may not be listening yet.
    ///
    /// # Panics
    /// If there is no such program.
    #[must_use]
    pub fn sentinel() -> Self {
        let (process, port) = (TestServer::new("sentinel"), Port::reserve());
        let (directory, file) = (process.directory().display(), process.directory().join("sentinel.conf"));
        // A sentinel writes its state to this file.
        fs::write(&file, format!("port {port}\nbind 127.0.0.1\ndir {directory}\n"))
            .expect("a directory of our own can be written to");
        let arguments = vec![file.display().to_string(), "--sentinel".to_owned()];
        let sentinel = Self { process, port, arguments, preloads: Vec::new() };
        sentinel.launch();
        sentinel
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
        self.process.launch(&Preload::all(&self.preloads, program()), &self.arguments);
    }

    /// Returns when it serves and has loaded its data. Returns `false` if another process has its port. It looks at the log, and does not
    /// connect.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn answers(&self) -> bool {
        let serves = || ready(self.process.log().contains("Ready to accept connections"));
        self.process.answers("Address already in use", serves).await
    }

    /// Starts it again on its port. If it still runs, it is killed first.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn restart(&self) {
        let end = Instant::now() + PATIENCE;
        loop {
            self.launch();
            if self.answers().await {
                return;
            }
            assert!(Instant::now() < end, "port {} was taken while its server was down", self.port);
        }
    }

    /// Removes its data. It must not run.
    ///
    /// # Panics
    /// If it cannot be removed.
    pub fn wipe(&self) {
        fs::remove_dir_all(self.process.directory()).expect("the data of our own server can be removed");
        fs::create_dir(self.process.directory()).expect("a directory for the server can be made");
    }

    /// Its process, through restarts.
    #[must_use]
    pub fn process(&self) -> &TestServer {
        &self.process
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Where clients find it: `redis://host:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

/// The program on this machine, or one in a container.
fn program() -> ServerProgram {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    if ServerProgram::wants_containers() {
        return ServerProgram::in_container(IMAGE_VARIABLE, "redis:7.4", [redis::PROGRAM]);
    }
    let installed = *INSTALLED.get_or_init(|| {
        let version = Command::new(redis::PROGRAM).arg("--version").stdout(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    });
    assert!(
        installed,
        "{} is not installed, and without a server no test can pass: run scripts/setup",
        redis::PROGRAM
    );
    ServerProgram::local([redis::PROGRAM])
}
