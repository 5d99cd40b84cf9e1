//! [`Process`]: one run of an etcd server.

use std::{
    env,
    fs::{self, File},
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

/// Names the server to start, where it is not the default one.
const BINARY_VARIABLE: &str = "DISTLOCK_TEST_ETCD";

/// Starts the server, tells its process id, and ends it when this test process ends, however that may come about: then
/// the pipe that it reads from is closed. The output of the server goes where its own goes.
const WATCHDOG: &str = r#""$0" "$@" >&2 & echo $!; exec >&-; read -r _; kill -9 $!"#;

/// A server process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    watchdog: Child,
    pid: u32,
}

impl Process {
    /// Starts a server with these arguments, which writes its log to a file. It may not be listening yet.
    pub(super) fn start(arguments: &[String], log: &Path) -> Self {
        let log = File::create(log).expect("the log can be written in a directory of our own");
        let mut watchdog = Command::new("sh")
            .args(["-c", WATCHDOG])
            .arg(binary())
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

    /// Sends a signal to the server.
    pub(super) fn signal(&self, signal: &str) {
        // A server that has ended already gets none.
        let _ = Command::new("sh").args(["-c", &format!("kill -{signal} {} 2>&-", self.pid)]).status();
    }

    /// Whether the server still runs.
    pub(super) fn is_alive(&self) -> bool {
        let state = fs::read_to_string(format!("/proc/{}/stat", self.pid));
        // Until its watchdog has taken note, a server that ended is a zombie.
        state.is_ok_and(|state| !state.contains(") Z "))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killed by its watchdog, which is what waits for it and returns when it is no more.
        drop(self.watchdog.stdin.take());
        let _ = self.watchdog.wait();
    }
}

/// The server to start: the one that [`BINARY_VARIABLE`] names, or else the first that `scripts/setup` knows.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let binary = env::var_os(BINARY_VARIABLE).map_or_else(default_binary, PathBuf::from);
        let version = Command::new(&binary).arg("--version").stdout(Stdio::null()).status();
        assert!(
            version.is_ok_and(|status| status.success()),
            "there is no etcd server at `{}`, and without a server no case can pass: run scripts/setup, or name \
             one in {BINARY_VARIABLE} or, by its URL, in {}",
            binary.display(),
            super::URL_VARIABLE
        );
        binary
    })
}

/// The first that `scripts/setup` has got.
fn default_binary() -> PathBuf {
    let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/etcd/setup");
    let printed = Command::new(setup).arg("--print").output().expect("scripts/etcd/setup can be run");
    let printed = String::from_utf8(printed.stdout).expect("paths of servers are text");
    printed.lines().next().unwrap_or_default().into()
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
