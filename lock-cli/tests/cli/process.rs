//! Starts the command, and collects its outcome.

use std::{
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// The longest wait for anything, even on a busy machine.
pub(crate) const SLACK: Duration = Duration::from_secs(30);

/// The exit code if the store does not answer.
const UNAVAILABLE: i32 = 69;

/// The command on a store, with no other settings than these arguments.
pub(crate) fn distlock(url: &str, args: &[&str]) -> Command {
    let mut command = with_default_signals(env!("CARGO_BIN_EXE_distlock"));
    // A folder without a settings file.
    command.env("XDG_CONFIG_HOME", "/nonexistent").env_remove("DISTLOCK_URL");
    command.args(["--url", url]).args(args).stdin(Stdio::null());
    command
}

/// A program that ignores no signal, even if these tests run where some are ignored: a background job of a shell ignores SIGINT, and its
/// children inherit that.
pub(crate) fn with_default_signals(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal", program]);
    command
}

/// The output of a command, and its exit code.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the command to its end.
pub(crate) fn outcome(url: &str, args: &[&str]) -> Outcome {
    Process::start(&mut distlock(url, args)).end()
}

/// Runs a command that waits for a lock. Runs it again if the store does not answer at the end of the wait: the last answer may take a
/// second, and longer on a busy machine.
pub(crate) fn answered(mut run: impl FnMut() -> Outcome) -> Outcome {
    let mut last = None;
    until("an answer at the end of a wait", || {
        let ended = last.insert(run());
        ended.code != Some(UNAVAILABLE) || !ended.stderr.contains("does not answer")
    });
    last.expect("it was run at least once")
}

/// A running process. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    input: Vec<u8>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self { child: child.expect("the command can be started"), input: Vec::new() }
    }

    /// Starts it with this standard input. An empty one stays open until the end.
    pub(crate) fn fed(command: &mut Command, input: &[u8]) -> Self {
        let mut process = Self::start(command.stdin(Stdio::piped()));
        process.input = input.to_vec();
        process
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("a process of our own can be sent a signal");
    }

    /// Closes its standard input.
    pub(crate) fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    pub(crate) fn is_there(&mut self) -> bool {
        self.child.try_wait().expect("a process of our own can be looked at").is_none()
    }

    /// Waits for its end. A standard input without anything to read stays open until then.
    pub(crate) fn end(mut self) -> Outcome {
        let mut stdin = self.child.stdin.take();
        let input = std::mem::take(&mut self.input);
        let ends = !input.is_empty();
        let feeder = thread::spawn(move || {
            // The command may have ended without reading all of it.
            let _ = stdin.as_mut().map(|stdin| stdin.write_all(&input));
            stdin.filter(|_| !ends)
        });
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let stdout = thread::spawn(move || all_of(out));
        let stderr = thread::spawn(move || all_of(err));
        until("the end of the command", || !self.is_there());
        let status = self.child.wait().expect("a process of our own can be waited for");
        drop(feeder.join());
        let text = |reader: thread::JoinHandle<String>| reader.join().expect("a reader does not panic");
        Outcome { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn all_of(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Polls until the condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < SLACK, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The queue of a lock, as `show --json` gives it. A store that a busy machine keeps from answering in time is asked again: each look is
/// a process with a connection of its own.
pub(crate) fn queue(url: &str, name: &str) -> Vec<serde_json::Value> {
    let mut queue = None;
    until("the queue of a lock", || {
        queue = read_queue(url, name);
        queue.is_some()
    });
    queue.expect("it was read")
}

/// `None` if the store did not answer.
fn read_queue(url: &str, name: &str) -> Option<Vec<serde_json::Value>> {
    let shown = outcome(url, &["show", "--json", "--", name]);
    if shown.code == Some(UNAVAILABLE) {
        return None;
    }
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).expect("it is JSON");
    Some(shown["queue"].as_array().expect("it is a list").clone())
}

/// Waits until the queue of a lock has this length.
pub(crate) fn until_queued(url: &str, name: &str, count: usize) {
    until("a queue of the right length", || queue(url, name).len() == count);
}

/// Starts a process that holds a lock until its standard input is closed, and waits until it does. If a busy machine keeps it from its
/// store, it is started again.
pub(crate) fn holding(url: &str, name: &str, args: &[&str]) -> Process {
    let line = [&["hold"], args, &["--", name]].concat();
    let start = || Process::fed(&mut distlock(url, &line), b"");
    let mut holder = start();
    until("the holder", || {
        if !holder.is_there() {
            let ended = std::mem::replace(&mut holder, start()).end();
            assert_eq!(ended.code, Some(UNAVAILABLE), "{ended:?}");
        }
        queue(url, name).iter().any(|row| row["state"] == "holding")
    });
    holder
}

/// Waits until a file has a line, and returns its text.
pub(crate) fn until_written(path: &Path) -> String {
    let mut text = String::new();
    until(&format!("{}", path.display()), || {
        text = std::fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    });
    text.trim().to_owned()
}
