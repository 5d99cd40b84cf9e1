//! [`ZkServer`]: a server process with its port and its directory, alone or one of an ensemble.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use lock_conformance::{Port, ServerProcess};
use lock_core::sync::{Mutex, MutexGuard};

use super::{Admin, Containers, java};

/// How long a server may take to start on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The tick of all test servers: the shortest session is six of them.
pub(crate) const TICK: Duration = Duration::from_millis(200);

/// A server that can be treated badly, because it is ours. Dropping it ends it, and removes what it kept.
#[derive(Debug)]
pub(crate) struct ZkServer {
    port: Port,
    directory: PathBuf,
    /// What is added to the settings of every server.
    settings: Vec<String>,
    /// What is added to the arguments of every server.
    arguments: Vec<String>,
    process: Mutex<Option<ServerProcess>>,
}

impl ZkServer {
    /// A member on a port of its own, which does not run yet.
    pub(super) fn new() -> Self {
        let port = Port::reserve();
        let directory = std::env::temp_dir().join(format!("distlock-zk-{port}-{}", super::unique()));
        fs::create_dir_all(directory.join("data")).expect("a directory for the server can be made");
        let (settings, arguments, process) = (Vec::new(), Vec::new(), Mutex::default());
        Self { port, directory, settings, arguments, process }
    }

    /// A server that runs, with these settings.
    pub(crate) async fn start(settings: impl Fn(&mut Self)) -> Self {
        loop {
            let mut member = Self::new();
            settings(&mut member);
            member.launch();
            if member.answers().await {
                // The client crate has a thread for all sessions of a process, which is there from the first one on.
                drop(member.admin().client().await);
                return member;
            }
        }
    }

    /// Says what it does with empty containers.
    pub(crate) fn treats(&mut self, containers: Containers) {
        if containers == Containers::Kept {
            self.arguments.push("-Dznode.container.checkIntervalMs=3600000".to_owned());
        }
    }

    /// Where it listens for clients: `host:port`.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// An operator's access to it, without a chroot.
    pub(super) fn admin(&self) -> Admin {
        Admin::new(&self.address(), "")
    }

    /// Where it has its files, for as long as it is there.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where it keeps its data.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Gives the server these settings, too, whenever it is started.
    pub(crate) fn with(&mut self, settings: impl IntoIterator<Item = impl Into<String>>) {
        self.settings.extend(settings.into_iter().map(Into::into));
    }

    /// Starts the server, which may not answer yet.
    pub(super) fn launch(&self) {
        let file = self.directory.join("zoo.cfg");
        fs::write(&file, self.configuration()).expect("a directory of our own can be written to");
        let mut arguments: Vec<String> = java::FLAGS.map(str::to_owned).into();
        arguments.extend(PROPERTIES.map(|property| format!("-D{property}")));
        arguments.extend_from_slice(&self.arguments);
        arguments.extend([MAIN.to_owned(), file.display().to_string()]);
        // What ran before, if anything, has ended when the next one starts.
        self.kill();
        let mut process = ServerProcess::start(&java::server(), &arguments, &self.log_file());
        process.leaves_nothing_in(&self.directory);
        *self.process() = Some(process);
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
    ///
    /// A word of four letters that comes while the server starts is never answered, and its connection stays: nobody waits long for the
    /// first answers.
    pub(super) async fn answers(&self) -> bool {
        let (admin, end) = (self.admin(), Instant::now() + PATIENCE);
        let data = format!("dataDir={}/", self.data().display());
        let mut patience = Duration::from_millis(50);
        loop {
            // Our own server, and not somebody else's on the same port; and one that serves.
            let conf = admin.says_within(patience, "conf").await;
            if conf.is_some_and(|conf| conf.contains(&data)) && admin.mode_within(patience).await.is_some() {
                return true;
            }
            patience = (patience * 5 / 4).min(Duration::from_secs(2));
            let log = self.log();
            let runs = self.is_alive();
            if !runs && log.contains("Address already in use") {
                return false;
            }
            assert!(runs && Instant::now() < end, "the server did not start:\n{log}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Whether it runs, if only by standing still.
    pub(super) fn is_alive(&self) -> bool {
        self.process().as_ref().is_some_and(ServerProcess::is_alive)
    }

    /// Ends it at once.
    pub(crate) fn kill(&self) {
        drop(self.process().take());
    }

    /// Ends it in an orderly way.
    pub(crate) async fn stop(&self) {
        self.running(ServerProcess::terminate);
        let end = Instant::now() + PATIENCE;
        while self.is_alive() {
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

    fn running(&self, order: impl FnOnce(&ServerProcess)) {
        order(self.process().as_ref().expect("the server runs"));
    }

    fn process(&self) -> MutexGuard<'_, Option<ServerProcess>> {
        self.process.lock()
    }
}

impl Drop for ZkServer {
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
