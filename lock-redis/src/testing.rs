//! Real servers for the tests of this crate, each on a port and in a folder of its own.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use lock_conformance::{Port, Proxy, ServerProcess, ServerProgram};
use lock_core::{Keeper, RuntimeSelector};
use tempfile::TempDir;

use crate::{
    RedisConfig,
    client::{Client, Endpoint},
};

/// A server that ends with its value.
pub(crate) struct Server {
    /// There is always one, but while it is started again.
    process: Option<ServerProcess>,
    dir: TempDir,
    pub(crate) port: Port,
    args: Vec<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        loop {
            let port = Port::reserve();
            // Another process may have taken the port meanwhile; then the server ends, and the next port is tried.
            if let Some(process) = launch(&port, dir.path(), &args) {
                return Self { process: Some(process), dir, port, args };
            }
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection of its own, without any of our code.
    pub(crate) fn admin(&self) -> redis::Connection {
        redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    pub(crate) fn run(&self, command: &str) -> redis::Value {
        words(command).query(&mut self.admin()).unwrap()
    }

    /// The lines of `CLIENT LIST`, but for the one that asks.
    pub(crate) fn clients(&self) -> Vec<String> {
        let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut self.admin()).unwrap();
        list.lines().filter(|line| !line.contains("cmd=client|list")).map(Into::into).collect()
    }

    /// Waits until as many clients are connected as there should be.
    pub(crate) fn await_clients(&self, count: usize) {
        eventually(|| self.clients().len() == count);
    }

    /// Makes it stand still.
    pub(crate) fn pause(&self) {
        self.running().pause();
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.running().resume();
    }

    pub(crate) fn kill(&mut self) {
        drop(self.process.take());
    }

    pub(crate) fn restart(&mut self) {
        self.kill();
        let process = launch(&self.port, self.dir.path(), &self.args).expect("the port is still free");
        self.process = Some(process);
    }

    fn running(&self) -> &ServerProcess {
        self.process.as_ref().expect("the server runs")
    }
}

/// A command as one would type it.
pub(crate) fn words(command: &str) -> redis::Cmd {
    let mut cmd = redis::Cmd::new();
    for word in command.split(' ') {
        cmd.arg(word);
    }
    cmd
}

fn launch(port: &Port, dir: &Path, args: &[String]) -> Option<ServerProcess> {
    let (port_text, dir_text) = (port.to_string(), dir.display().to_string());
    let first = ["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--dir", &dir_text];
    let arguments: Vec<_> = first.map(str::to_owned).into_iter().chain(args.iter().cloned()).collect();
    let process =
        ServerProcess::start(&ServerProgram::local(["redis-server"]), &arguments, &dir.join("server.log"));
    let started = Instant::now();
    while started.elapsed() < LATE {
        if !process.is_alive() {
            return None;
        }
        if answers(port.number()) {
            return Some(process);
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("redis-server did not answer within {LATE:?}");
}

/// Whatever it says to a `PING`: some servers of these tests want a password. Nobody who counts its clients meets this
/// one: it has been let go when the connection ends.
fn answers(port: u16) -> bool {
    let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut said = Vec::new();
    socket.write_all(b"PING\r\nQUIT\r\n").is_ok() && socket.read_to_end(&mut said).is_ok() && !said.is_empty()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// So late, and no later, comes what has to come, on a machine that is busy with other things.
pub(crate) const LATE: Duration = Duration::from_secs(20);

pub(crate) fn eventually(mut check: impl FnMut() -> bool) {
    let started = Instant::now();
    while !check() {
        assert!(started.elapsed() < LATE, "not within {LATE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// With a keeper of their own.
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
    Proxy::start(([127, 0, 0, 1], server.port.number()).into(), |_| false)
}
