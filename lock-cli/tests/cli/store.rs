//! [`Store`]: a store for one test, and how to reach it.

use std::{
    env,
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
};

use tempfile::TempDir;

/// A store of this test alone.
pub(crate) struct Store {
    pub(crate) url: String,
    server: Option<Child>,
    _folder: Option<TempDir>,
}

impl Store {
    /// Every store that can be reached from several processes, with its name.
    pub(crate) fn all() -> Vec<(&'static str, Self)> {
        vec![
            ("sqlite", Self::sqlite()),
            ("redis", Self::redis()),
            #[cfg(feature = "etcd")]
            ("etcd", Self::etcd()),
            #[cfg(feature = "zk")]
            ("zk", Self::zk()),
        ]
    }

    /// The default one, which most tests use, or the one that `DISTLOCK_TEST_CLI_STORE` names.
    pub(crate) fn any() -> Self {
        match env::var("DISTLOCK_TEST_CLI_STORE").as_deref() {
            Err(_) | Ok("sqlite") => Self::sqlite(),
            Ok("redis") => Self::redis(),
            #[cfg(feature = "etcd")]
            Ok("etcd") => Self::etcd(),
            #[cfg(feature = "zk")]
            Ok("zk") => Self::zk(),
            Ok(other) => panic!("DISTLOCK_TEST_CLI_STORE: `{other}` is no store, or not among the features"),
        }
    }

    /// A file of its own.
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder for the file can be made");
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        Self { url, server: None, _folder: Some(folder) }
    }

    /// A member of its own.
    #[cfg(feature = "etcd")]
    fn etcd() -> Self {
        let [client, peer] =
            [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").and_then(|bound| bound.local_addr()).unwrap());
        let folder = tempfile::tempdir().expect("a folder for the server can be made");
        // The one that `scripts/setup` got.
        let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/etcd/setup");
        let printed = Command::new(setup).arg("--print").output().expect("scripts/etcd/setup can be run");
        let printed = String::from_utf8(printed.stdout).unwrap();
        let server = Command::new(printed.lines().next().unwrap_or_default())
            .arg(format!("--data-dir={}", folder.path().display()))
            .args([
                format!("--listen-client-urls=http://{client}"),
                format!("--advertise-client-urls=http://{client}"),
            ])
            .args([
                format!("--listen-peer-urls=http://{peer}"),
                format!("--initial-advertise-peer-urls=http://{peer}"),
            ])
            .args(["--name=cli".to_owned(), format!("--initial-cluster=cli=http://{peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is no etcd server: run scripts/setup");
        let store = Self { url: format!("etcd://{client}"), server: Some(server), _folder: Some(folder) };
        crate::process::until("the etcd server", || {
            crate::process::outcome(&store.url, &["list"]).code == Some(0)
        });
        store
    }

    /// A server of its own, with a short tick: sessions are as short as the ttl that a test asks for.
    #[cfg(feature = "zk")]
    fn zk() -> Self {
        let port = lock_conformance::Port::reserve();
        let folder = tempfile::tempdir().expect("a folder for the server can be made");
        let file = folder.path().join("zoo.cfg");
        let settings = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=100\nmaxSessionTimeout=86400000\n\
             admin.enableServer=false\n",
            folder.path().join("data").display()
        );
        std::fs::write(&file, settings).expect("a folder of our own can be written to");
        // What `scripts/setup` got.
        let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/zk/setup");
        let printed = Command::new(setup).arg("--print").output().expect("scripts/zk/setup can be run");
        let printed = String::from_utf8(printed.stdout).unwrap();
        let server = Command::new("java")
            .args([
                "-Xmx96m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-Dzookeeper.forceSync=no",
                "-cp",
            ])
            .arg(printed.lines().next().unwrap_or_default())
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is no Java: run scripts/setup");
        let url = format!("zk://127.0.0.1:{port}?tick=100ms");
        let store = Self { url, server: Some(server), _folder: Some(folder) };
        crate::process::until("the ZooKeeper server", || {
            crate::process::outcome(&store.url, &["list"]).code == Some(0)
        });
        store
    }

    /// A Redis server of its own.
    pub(crate) fn redis() -> Self {
        // A port that was free a moment ago may be taken by the time that the server asks for it.
        (0..10).find_map(|_| Self::redis_on_a_free_port()).expect("a server on one of ten ports")
    }

    /// Where its server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        let (_, address) = self.url.split_once("//").expect("it is a server");
        address.parse().expect("it is an address")
    }

    fn redis_on_a_free_port() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(env::temp_dir());
        let mut server = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server can be started; `scripts/setup` installs it");
        let log = BufReader::new(server.stdout.take().expect("it is piped"));
        let ready =
            log.lines().map_while(Result::ok).any(|line| line.contains("Ready to accept connections"));
        let store = Self { url: format!("redis://127.0.0.1:{port}"), server: Some(server), _folder: None };
        ready.then_some(store)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // It is a child of ours: nobody else can have ended it, and an error leaves nothing to do.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
