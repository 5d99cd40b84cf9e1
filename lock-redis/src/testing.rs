//! Real servers for the tests of this crate, each on a free port, in a folder of its own.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use lock_core::Keeper;
use tempfile::TempDir;

use crate::{
    RedisConfig,
    connection::{Endpoint, Wire},
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

/// Whatever it says to a `PING`: some servers of these tests want a password.
fn answers(port: u16) -> bool {
    let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket.write_all(b"PING\r\n").is_ok() && socket.read(&mut [0; 64]).is_ok_and(|len| len > 0)
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

pub(crate) fn endpoint(url: &str) -> Arc<Endpoint> {
    Arc::new(Endpoint::new(Arc::new(url.parse::<RedisConfig>().unwrap())).unwrap())
}

pub(crate) fn wire(url: &str) -> Wire {
    Wire::new(endpoint(url), Keeper::start().unwrap())
}

/// A proxy in front of a server that can go on to take bytes and to hand none on.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    links: Arc<Mutex<Vec<Link>>>,
}

struct Link {
    swallows: Arc<AtomicBool>,
    ends: [TcpStream; 2],
}

impl Proxy {
    pub(crate) fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let links = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&links);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let swallows = Arc::new(AtomicBool::new(false));
                pass_on(&client, &server, &swallows);
                pass_on(&server, &client, &swallows);
                kept.lock().unwrap().push(Link { swallows, ends: [client, server] });
            }
        });
        Self { port, links }
    }

    /// Nothing passes any more on the connections there are; new ones are not touched.
    pub(crate) fn swallow(&self) {
        self.links.lock().unwrap().iter().for_each(|link| link.swallows.store(true, Ordering::SeqCst));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for end in self.links.lock().unwrap().iter().flat_map(|link| &link.ends) {
            // It may have ended by itself.
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

fn pass_on(from: &TcpStream, to: &TcpStream, swallows: &Arc<AtomicBool>) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let swallows = Arc::clone(swallows);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            if !swallows.load(Ordering::SeqCst) && to.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
        if !swallows.load(Ordering::SeqCst) {
            let _ = to.shutdown(Shutdown::Write);
        }
    });
}
