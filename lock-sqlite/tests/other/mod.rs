//! [`Other`]: another process, which gets commands and reports what it has done.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

use lock_conformance::ran_nothing;

/// How long any step may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
const MARK: &str = "@child ";

/// This test binary, started again for one of the tasks of its test `other`. It is killed on drop.
pub(crate) struct Other {
    pub(crate) child: Child,
    told: Receiver<String>,
    input: ChildStdin,
}

impl Other {
    pub(crate) fn start(task: &str, path: &Path) -> Self {
        Self::run(Command::new(std::env::current_exe().unwrap()), task, path)
    }

    /// Starts a copy of this program as another user, with one more group.
    pub(crate) fn start_as((user, group): (u32, u32), program: &Path, task: &str, path: &Path) -> Self {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}"), format!("--groups={group}")]);
        command.arg(program);
        Self::run(command, task, path)
    }

    fn run(mut command: Command, task: &str, path: &Path) -> Self {
        let mut child = command
            .args(["other", "--exact", "--nocapture", "--test-threads=1"])
            .env("DISTLOCK_OTHER", task)
            .env("DISTLOCK_FILE", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, told) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(MARK) {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Self { child, told, input }
    }

    /// The next line of the process.
    pub(crate) fn says(&self) -> String {
        self.told.recv_timeout(PATIENCE).expect("another process says what it has done")
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    pub(crate) fn signal(&self, signal: &str) {
        send(signal, &self.child.id().to_string());
    }

    /// Kills the process, which is gone when this returns.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The body of the test `other`: runs the task for which [`Other::start`] has started this process, if it was started so.
pub(crate) fn carry_out(task: impl AsyncFnOnce(&str, &Path)) {
    let Ok(name) = std::env::var("DISTLOCK_OTHER") else {
        return ran_nothing("other", "it is what other tests start in a process of its own");
    };
    let path = PathBuf::from(std::env::var("DISTLOCK_FILE").unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(task(&name, &path));
    std::process::exit(0);
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn send(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([&format!("-{signal}"), pid]).status().unwrap().success());
}

pub(crate) fn say(what: impl std::fmt::Display) {
    println!("{MARK}{what}");
    std::io::stdout().flush().unwrap();
}

/// The next line of input. The process ends when its input is closed.
pub(crate) fn listen() -> String {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap() == 0 {
        std::process::exit(1);
    }
    line.trim().to_owned()
}
