//! [`Store`]: a store for one test, and how to reach it.

use std::{
    env,
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    process::{Child, Command, Stdio},
};

/// A store of this test alone.
pub(crate) struct Store {
    pub(crate) url: String,
    server: Option<Child>,
}

impl Store {
    /// Every store that can be reached from several processes, with its name.
    pub(crate) fn all() -> Vec<(&'static str, Self)> {
        vec![("redis", Self::redis())]
    }

    /// The one that most tests use.
    pub(crate) fn any() -> Self {
        Self::redis()
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
        let store = Self { url: format!("redis://127.0.0.1:{port}"), server: Some(server) };
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
