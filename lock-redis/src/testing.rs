//! Real servers for the tests of this crate, each on a port and in a folder of its own.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use lock_conformance::{Proxy, ServerProcess};
use lock_core::{Keeper, RuntimeSelector};
use lock_test_servers::{RedisServer, block_on};

use crate::{
    RedisConfig,
    client::{Client, Endpoint},
};

/// A server that is stopped when this value is dropped.
pub(crate) struct Server(RedisServer);

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        Self(block_on(RedisServer::start(arguments)))
    }

    pub(crate) fn url(&self) -> String {
        self.0.url()
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    /// A new connection that uses none of our code.
    pub(crate) fn admin(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    pub(crate) fn run(&self, command: &str) -> redis::Value {
        words(command).query(&mut self.admin()).unwrap()
    }

    /// The lines of `CLIENT LIST`, except that of the connection that asks.
    pub(crate) fn clients(&self) -> Vec<String> {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut self.admin()).unwrap();
        list.lines().filter(|line| !line.contains("cmd=client|list")).map(Into::into).collect()
    }

    /// Waits until `count` clients are connected.
    pub(crate) fn await_clients(&self, count: usize) {
        eventually(|| self.clients().len() == count);
    }

    /// Stops the process of the server without ending it.
    pub(crate) fn pause(&self) {
        self.0.process().running(ServerProcess::pause);
    }

    /// Lets the process continue.
    pub(crate) fn resume(&self) {
        self.0.process().running(ServerProcess::resume);
    }

    pub(crate) fn kill(&self) {
        self.0.process().kill();
    }

    pub(crate) fn restart(&self) {
        block_on(self.0.restart());
    }
}

/// A command as a user would type it.
pub(crate) fn words(command: &str) -> redis::Cmd {
    let mut cmd = redis::Cmd::new();
    for word in command.split(' ') {
        cmd.arg(word);
    }
    cmd
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// How long an expected event may take on a machine that is busy with other things.
pub(crate) const LATE: Duration = Duration::from_secs(20);

pub(crate) fn eventually(mut check: impl FnMut() -> bool) {
    let started = Instant::now();
    while !check() {
        assert!(started.elapsed() < LATE, "not within {LATE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A runtime selector with its own keeper.
pub(crate) fn runtime_selector() -> Arc<RuntimeSelector> {
    Arc::new(RuntimeSelector::new(Keeper::start().unwrap()))
}

pub(crate) fn endpoint(url: &str) -> Arc<Endpoint> {
    Arc::new(Endpoint::new(Arc::new(url.parse::<RedisConfig>().unwrap())).unwrap())
}

pub(crate) fn client(url: &str) -> Client {
    Client::new(endpoint(url), runtime_selector())
}

/// A proxy in front of a server of one's own.
pub(crate) fn proxy(server: &Server) -> Proxy {
    Proxy::start(([127, 0, 0, 1], server.port()).into(), |_| false)
}
