//! [`Member`]: a server process with its port and its directory, alone or one of an ensemble.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lock_conformance::{Port, ServerProcess};

use super::{Admin, java};

/// How long a server may take to start on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The tick of all test servers: the shortest session is six of them.
pub(crate) const TICK: Duration = Duration::from_millis(200);

/// A server that can be treated badly, because it is ours. Dropping it ends it, and removes what it kept.
#[derive(Debug)]
pub(crate) struct Member {
    port: Port,
    directory: PathBuf,
    /// What is added to the settings of every server.
    settings: Vec<String>,
    /// What is added to the arguments of every server.
    arguments: Vec<String>,
    process: Mutex<Option<ServerProcess>>,
}

impl Member {
    /// A member on a port of its own, which does not run yet.
    pub(super) fn new() -> Self {
        let port = Port::reserve();
        let directory = std::env::temp_dir().join(format!("distlock-zk-{port}-{}", super::unique()));
        fs::create_dir_all(directory.join("data")).expect("a directory for the server can be made");
        let (settings, arguments, process) = (Vec::new(), Vec::new(), Mutex::default());
        Self { port, directory, settings, arguments, process }
    }

    /// Lets it leave empty containers alone for as long as a test takes: a request finds the one that was there just now.
    pub(super) fn keeps_containers(&mut self) {
        self.with_arguments(&["-Dznode.container.checkIntervalMs=3600000"]);
    }

    /// Where it listens for clients.
    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Where it keeps its data.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Gives the server these settings, too, whenever it is started.
    pub(super) fn with(&mut self, settings: impl IntoIterator<Item = impl Into<String>>) {
        self.settings.extend(settings.into_iter().map(Into::into));
    }

    /// Gives the program these arguments, too, whenever it is started.
    pub(super) fn with_arguments(&mut self, arguments: &[&str]) {
        self.arguments.extend(arguments.iter().map(ToString::to_string));
    }

    /// Starts the server, which may not answer yet.
    pub(super) fn launch(&self) {
        let file = self.directory.join("zoo.cfg");
        fs::write(&file, self.configuration()).expect("a directory of our own can be written to");
        let mut arguments: Vec<String> = java::FLAGS.map(str::to_owned).into();
        arguments.extend(PROPERTIES.map(|property| format!("-D{property}")));
        arguments.extend_from_slice(&self.arguments);
        arguments.extend([MAIN.to_owned(), file.display().to_string()]);
        *self.process() = Some(ServerProcess::start(&java::server(), &arguments, &self.log_file()));
    }

    fn configuration(&self) -> String {
        let mut lines = vec![
            format!("dataDir={}", self.data().display()),
            format!("clientPort={}", self.port),
            "clientPortAddress=127.0.0.1".to_owned(),
            format!("tickTime={}", TICK.as_millis()),
            // Many leases in tests are to outlive the test.
            "maxSessionTimeout=2000000000".to_owned(),
            "admin.enableServer=false".to_owned(),
            "4lw.commands.whitelist=*".to_owned(),
            "maxClientCnxns=0".to_owned(),
        ];
        lines.extend_from_slice(&self.settings);
        lines.join("\n") + "\n"
    }

    /// Returns when the server answers, or, with `false`, when somebody else has taken its port.
    pub(super) async fn answers(&self, admin: &Admin) -> bool {
        let end = Instant::now() + PATIENCE;
        let data = format!("dataDir={}/", self.data().display());
        loop {
            // Our own server, and not somebody else's on the same port; and one that serves.
            let ours = admin.says("conf").await.is_some_and(|conf| conf.contains(&data));
            if ours && admin.mode().await.is_some() {
                return true;
            }
            let log = self.log();
            let runs = self.process().as_ref().is_some_and(ServerProcess::is_alive);
            if !runs && log.contains("Address already in use") {
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

    /// Removes what it kept, but for its number in an ensemble. Only while it does not run.
    pub(super) fn wipe(&self) {
        fs::remove_dir_all(self.data().join("version-2")).expect("the data of our own server can be removed");
    }

    fn log(&self) -> String {
        // Without a log there is nothing to show.
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.directory.join("server.log")
    }

    /// Where it may keep something that is no data.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn running(&self, order: impl FnOnce(&ServerProcess)) {
        order(self.process().as_ref().expect("the server runs"));
    }

    fn process(&self) -> MutexGuard<'_, Option<ServerProcess>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        // What is left in a temporary directory harms nobody.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

const PROPERTIES: [&str; 7] = [
    // What was written outlives a kill of the process, and the operating system is not killed.
    "zookeeper.forceSync=no",
    // Empty containers are removed soon, and not after a minute; and as many as there are, and not 167 in a second.
    "znode.container.checkIntervalMs=200",
    "znode.container.maxPerMinute=6000000",
    "zookeeper.enforceQuota=true",
    "zookeeper.DigestAuthenticationProvider.superDigest=super:fJFGr9DG3pjj+ZcNzWBoN2VhlLA=",
    "org.slf4j.simpleLogger.defaultLogLevel=warn",
    // Files for data are made in small steps.
    "zookeeper.preAllocSize=64",
];
