//! [`ServerProcess`]: one run of a server program.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
};

use lock_core::{Entropy, SystemEntropy};

use crate::signals;

/// Starts the program, tells its process id, and ends it when this test process ends, however that may come about: then
/// the pipe that it reads from is closed. The output of the program goes where its own goes.
const WATCHDOG: &str = r#""$0" "$@" >&2 & echo $!; exec >&-; read -r _; kill -9 $!"#;

/// A server process. It ends when this is dropped, or when the test process ends.
#[derive(Debug)]
pub struct ServerProcess {
    watchdog: Child,
    pid: u32,
}

impl ServerProcess {
    /// Starts a program with these arguments, which writes its log to a file. It may not be listening yet.
    ///
    /// # Panics
    /// If the log cannot be written. That there is no such program is only seen in the log.
    #[must_use]
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> Self {
        let log = File::create(log).expect("the log can be written in a directory of our own");
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a shell can be started");
        let mut line = String::new();
        let output = watchdog.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("the watchdog writes a line");
        let pid = line.trim().parse().expect("the line is a process id");
        Self { watchdog, pid }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Asks it to end (`SIGTERM`). One that has ended already is left alone.
    pub fn terminate(&self) {
        signals::send("TERM", self.pid);
    }

    /// Makes it stand still, as if its machine were asleep, until [`resume`](Self::resume). When this returns, none of its
    /// threads runs any more.
    pub fn pause(&self) {
        signals::stop(self.pid);
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub fn resume(&self) {
        signals::send("CONT", self.pid);
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let state = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        // Until its watchdog has taken note, a server that ended is a zombie.
        state.is_ok_and(|state| !state.contains(") Z "))
    }

    /// A port of the loopback interface that nobody listens on. Below the range from which the system takes ports for
    /// outgoing connections, so that nobody gets it by accident while the server is down.
    #[must_use]
    pub fn free_port() -> u16 {
        loop {
            let port = 20_000 + (SystemEntropy.bits() % 12_000) as u16;
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Killed by its watchdog, which is what waits for it and returns when it is no more.
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}
