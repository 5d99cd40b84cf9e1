//! [`Process`]: one run of `redis-server`.

use std::{
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Starts the server, tells its process id, and ends it when this test process ends, however that may come about: then
/// the pipe that it reads from is closed.
const WATCHDOG: &str = r#"redis-server "$@" & echo $!; read -r _; kill -9 $!"#;

/// A server process. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    watchdog: Child,
    pid: u32,
}

impl Process {
    /// Starts a server on a port of the loopback interface, with its data in a directory, which it writes only if it
    /// is to find it again: a disk that others keep busy would stop it. It may not be listening yet.
    pub(super) fn start(port: u16, directory: &Path, keeps_data: bool) -> Self {
        assert!(
            is_installed(),
            "redis-server is not installed, and without a server no case can pass: run scripts/setup, or name a \
             server in {}",
            super::URL_VARIABLE
        );
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "sh", "--port", &port.to_string(), "--bind", "127.0.0.1"])
            // What was written outlives a kill of the process, and the operating system is not killed.
            .args(["--appendonly", if keeps_data { "yes" } else { "no" }, "--appendfsync", "no"])
            .args(["--save", "", "--dir"])
            .arg(directory)
            .args(["--logfile", "server.log"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell can be started");
        let mut line = String::new();
        let output = watchdog.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the watchdog writes a line");
        let pid = line.trim().parse().expect("the line is a process id");
        Self { watchdog, pid }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal to the server.
    pub(super) fn signal(&self, signal: &str) {
        // A server that has ended already gets none.
        let _ = Command::new("sh").args(["-c", &format!("kill -{signal} {}", self.pid)]).status();
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
pub(super) fn free_port() -> u16 {
    use lock_core::{Entropy, SystemEntropy};
    loop {
        let port = 20_000 + (SystemEntropy.bits() % 12_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// What the server wrote to its log, for the message of a failure.
pub(super) fn log(directory: &Path) -> String {
    let mut text = String::new();
    // Without a log there is nothing to show.
    let _ =
        std::fs::File::open(directory.join("server.log")).and_then(|mut log| log.read_to_string(&mut text));
    text
}

/// Removes what an earlier run wrote to the log.
pub(super) fn forget_log(directory: &Path) {
    // There is none before the first run.
    let _ = std::fs::remove_file(directory.join("server.log"));
}
