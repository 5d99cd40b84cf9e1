//! [`ZkServer`]: a server with the settings of all tests, alone or one of an ensemble.

use std::{path::PathBuf, time::Duration};

use lock_conformance::TestServer;
use lock_test_servers::{ServerClock, ZooKeeperServer, java};

use super::{Admin, Containers};

/// How long an ensemble may take for a change of its leader or of its members, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The tick of all test servers: the shortest session is six of them.
pub(crate) const TICK: Duration = Duration::from_millis(200);

/// A server that a test owns. Dropping it ends it, and removes its data.
#[derive(Debug)]
pub(crate) struct ZkServer(ZooKeeperServer);

impl ZkServer {
    /// A member on a port of its own, which does not run yet.
    pub(super) fn new() -> Self {
        let mut server = ZooKeeperServer::new(TICK);
        server.with_arguments(java::SHORT_RUN);
        server.with_arguments(PROPERTIES.map(|property| format!("-D{property}")));
        // Many leases in tests are to outlive the test.
        server.with(["maxSessionTimeout=2000000000", "4lw.commands.whitelist=*", "maxClientCnxns=0"]);
        Self(server)
    }

    /// A server that runs, with these settings.
    pub(crate) async fn start(settings: impl Fn(&mut Self)) -> Self {
        loop {
            let mut member = Self::new();
            settings(&mut member);
            member.launch();
            if member.answers().await {
                // The first session and the first write take a server longest, on a busy machine longer than a short lease lasts. And the client
                // crate has a thread for all sessions of a process, which is there from the first one on. A server may refuse this write.
                let _ = member.admin().writes().await;
                return member;
            }
        }
    }

    /// Sets what it does with empty containers.
    pub(crate) fn treats(&mut self, containers: Containers) {
        if containers == Containers::Kept {
            self.0.with_arguments(["-Dznode.container.checkIntervalMs=3600000"]);
        }
    }

    /// Gives it this wall clock.
    pub(crate) fn with_clock(&mut self, clock: &ServerClock) {
        self.0.with_clock(clock);
    }

    /// Where it listens for clients: `host:port`.
    pub(super) fn address(&self) -> String {
        self.0.address()
    }

    /// An operator's access to it, without a chroot.
    pub(super) fn admin(&self) -> Admin {
        Admin::new(&self.address(), "")
    }

    /// Its process, with the directory of its files.
    pub(crate) fn process(&self) -> &TestServer {
        self.0.process()
    }

    /// Where it keeps its data.
    pub(crate) fn data(&self) -> PathBuf {
        self.0.data()
    }

    /// Gives the server these settings, too, whenever it is started.
    pub(crate) fn with(&mut self, settings: impl IntoIterator<Item = impl Into<String>>) {
        self.0.with(settings);
    }

    /// Starts the server, which may not answer yet.
    pub(super) fn launch(&self) {
        self.0.launch();
    }

    /// Returns when the server answers, or, with `false`, when another process has taken its port.
    pub(super) async fn answers(&self) -> bool {
        let (admin, data) = (self.admin(), format!("dataDir={}/", self.data().display()));
        let (admin, data) = (&admin, data.as_str());
        let look = |limit| async move {
            // It has to be our own server, and not another one on the same port, and it has to serve.
            let conf = admin.says_within(limit, "conf").await;
            conf.is_some_and(|conf| conf.contains(data)) && admin.mode_within(limit).await.is_some()
        };
        self.0.answers(look).await
    }

    /// Removes its data, except its number in an ensemble. Only while it does not run.
    pub(super) fn wipe(&self) {
        self.0.wipe();
    }
}

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
