//! Real servers for the tests of this crate, each on a free port, in a folder of its own.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use lock_conformance::Proxy;
use lock_core::Keeper;
use tempfile::TempDir;

use crate::{
    RedisConfig,
    connection::{Endpoint, Homes, Wire},
};

/// A server that ends with its value.
pub(crate) struct Server {
    process: Process,
    dir: TempDir,
    pub(crate) port: u16,
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
            let port = free_port();
            // Another process may have taken the port meanwhile; then the server ends, and the next port is tried.
            if let Some(process) = launch(port, dir.path(), &args) {
                return Self { process, dir, port, args };
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
        eventually(Duration::from_secs(5), || self.clients().len() == count);
    }

    pub(crate) fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.process.0.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.process.end();
    }

    pub(crate) fn restart(&mut self) {
        self.kill();
        self.process = launch(self.port, self.dir.path(), &self.args).expect("the port is still free");
    }
}

/// A process that ends with its value, also in a panic. A stopped one ends as well.
struct Process(Child);

impl Process {
    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
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

fn launch(port: u16, dir: &Path, args: &[String]) -> Option<Process> {
    let process = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(dir)
        .args(args)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed");
    let mut process = Process(process);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(10) {
        if process.0.try_wait().unwrap().is_some() {
            return None;
        }
        if answers(port) {
            return Some(process);
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("redis-server did not answer within 10 s");
}

/// Whatever it says to a `PING`: some servers of these tests want a password. Nobody who counts its clients meets this
/// one: it has been let go when the connection ends.
fn answers(port: u16) -> bool {
    let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut said = Vec::new();
    socket.write_all(b"PING\r\nQUIT\r\n").is_ok() && socket.read_to_end(&mut said).is_ok() && !said.is_empty()
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn eventually(within: Duration, mut check: impl FnMut() -> bool) {
    let started = Instant::now();
    while !check() {
        assert!(started.elapsed() < within, "not within {within:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// With a keeper of their own.
pub(crate) fn homes() -> Arc<Homes> {
    Arc::new(Homes::new(Keeper::start().unwrap()))
}

pub(crate) fn endpoint(url: &str) -> Arc<Endpoint> {
    Arc::new(Endpoint::new(Arc::new(url.parse::<RedisConfig>().unwrap())).unwrap())
}

pub(crate) fn wire(url: &str) -> Wire {
    Wire::new(endpoint(url), homes())
}

/// A proxy in front of a server of one's own.
pub(crate) fn proxy(server: &Server) -> Proxy {
    Proxy::start(([127, 0, 0, 1], server.port).into(), |_| false)
}
