//! [`Process`]: one run of `redis-server`.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

const LOG: &str = "server.log";

/// How long one look at a server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts the server, tells its process id, and ends it when this test process ends, however that may come about: then
/// the pipe that it reads from is closed.
const WATCHDOG: &str = r#"redis-server "$@" & echo $!; read -r _; kill -9 $!"#;

/// A server process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    watchdog: Child,
    pid: u32,
    directory: PathBuf,
}

/// How far a server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    NotYet,
    Done,
    /// Somebody else has its port.
    InVain,
}

impl Process {
    /// Starts a server on a port of the loopback interface, with its data and its log in a directory, and these arguments
    /// on its command line. It may not be listening yet.
    pub(crate) fn start(port: u16, directory: &Path, arguments: &[String]) -> Self {
        assert!(
            is_installed(),
            "redis-server is not installed, and without a server no test can pass: run scripts/setup"
        );
        // What an earlier run wrote. There is none before the first.
        let _ = fs::remove_file(directory.join(LOG));
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "sh", "--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(arguments)
            .arg("--dir")
            .arg(directory)
            .args(["--logfile", LOG])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell can be started");
        let mut line = String::new();
        let output = watchdog.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the watchdog writes a line");
        let pid = line.trim().parse().expect("the line is a process id");
        Self { watchdog, pid, directory: directory.to_owned() }
    }

    /// Looks once whether the server is there.
    pub(crate) fn look(&self, client: &redis::Client) -> Start {
        // Our own server, and not somebody else's on the same port.
        let ours = format!("process_id:{}\r\n", self.pid);
        let up = client.get_connection_with_timeout(PATIENCE).and_then(|mut connection| {
            connection.set_read_timeout(Some(PATIENCE))?;
            let info: String = redis::cmd("INFO").arg("server").query(&mut connection)?;
            // It tells about itself before it has read its data, and about its data only then.
            redis::cmd("DBSIZE").exec(&mut connection).map(|()| info.contains(&ours))
        });
        match up {
            Ok(true) => Start::Done,
            _ if self.log().contains("Address already in use") => Start::InVain,
            _ => Start::NotYet,
        }
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: &str) {
        // A server that has ended already gets none.
        let _ = Command::new("sh").args(["-c", &format!("kill -{signal} {}", self.pid)]).status();
    }

    /// What the server wrote to its log, for the message of a failure.
    pub(crate) fn log(&self) -> String {
        // Without a log there is nothing to show.
        fs::read_to_string(self.directory.join(LOG)).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killed by its watchdog, which is what waits for it and returns when it is no more.
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

fn is_installed() -> bool {
    let version = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// A port that nobody listens on. Below the range from which the system takes ports for outgoing connections, so that
/// nobody gets it by accident while the server is down.
pub(crate) fn free_port() -> u16 {
    use lock_core::{Entropy, SystemEntropy};
    loop {
        let port = 20_000 + (SystemEntropy.bits() % 12_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
