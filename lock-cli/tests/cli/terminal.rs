//! A session on a terminal.

use std::{
    fs,
    process::{Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rexpect::{
    process::WaitStatus,
    session::{PtySession, spawn_command},
};

use crate::{
    loss::SHORT,
    process::{
        Process, SLACK, answered, distlock, holding, outcome, queue, until, until_queued, until_written,
        with_default_signals,
    },
    store::Store,
};

/// A program on a terminal of its own. In most tests it is a shell with job control.
struct Session(PtySession);

impl Session {
    fn new(store: &Store) -> Self {
        let mut shell = with_default_signals("bash");
        shell.args(["--norc", "--noprofile", "-i"]);
        shell.env("PS1", "ready$ ").env("TERM", "xterm").env("DISTLOCK_URL", &store.url);
        shell.env("XDG_CONFIG_HOME", "/nonexistent").env("D", env!("CARGO_BIN_EXE_distlock"));
        // No other output of the shell than its prompt.
        shell.env("INPUTRC", "/dev/null").args(["+o", "history"]);
        let mut session = Self::of(shell);
        session.expect("ready$ ");
        session
    }

    fn of(program: Command) -> Self {
        let session = spawn_command(program, Some(SLACK.as_millis() as u64));
        Self(session.expect("a program can be started on a terminal"))
    }

    fn line(&mut self, line: &str) {
        self.0.send_line(line).expect("a line can be typed");
    }

    fn control(&mut self, key: char) {
        self.0.send_control(key).expect("a key can be typed");
    }

    /// Waits for a text. Returns the output before it.
    fn expect(&mut self, text: &str) -> String {
        self.0.exp_string(text).unwrap_or_else(|error| panic!("`{text}` was not shown: {error}"))
    }

    /// Checks the exit code of the last line.
    fn expect_code(&mut self, code: i32) {
        self.line("echo \"code=$?=\"");
        // The line editor echoes what is typed.
        self.expect(&format!("code={code}="));
        self.expect("ready$ ");
    }

    /// Checks that the shell can read from its terminal.
    fn expect_terminal(&mut self) {
        self.line("echo still $((1+1))");
        self.expect("still 2");
        self.expect("ready$ ");
    }
}

/// An interactive shell ignores SIGTERM, so it is told to exit: twice, because it warns once if it has jobs.
impl Drop for Session {
    fn drop(&mut self) {
        for _ in 0..2 {
            // The shell may have ended.
            let _ = self.0.send_line("exit");
        }
    }
}

#[test]
fn a_command_on_a_terminal_reads_from_it() {
    let store = Store::any();
    let mut session = Session::new(&store);
    session.line("$D run a -- sh -c 'read line; echo \"<$line>\"'");
    until_queued(&store.url, "a", 1);
    session.line("hello");
    session.expect("<hello>");
    session.expect("ready$ ");
    session.expect_code(0);
    // The shell has its terminal back.
    session.line("cat");
    session.line("again");
    session.expect("again");
    session.control('c');
    session.expect("ready$ ");
}

#[test]
fn ctrl_c_goes_to_the_command_and_the_lock_is_free() {
    let store = Store::any();
    let mut session = Session::new(&store);
    session.line(
        "$D run a -- sh -c 'trap \"echo caught; exit 5\" INT; echo started; while :; do sleep 0.01; done'",
    );
    session.expect("started");
    session.control('c');
    session.expect("caught");
    session.expect("ready$ ");
    session.expect_code(5);
    session.line("$D run a -- sh -c 'echo started again; sleep 60'");
    session.expect("started again\r");
    session.control('c');
    session.expect("ready$ ");
    session.expect_code(130);
    assert!(queue(&store.url, "a").is_empty());
}

/// As without `distlock`. dash ends a script when it gets the signal itself; bash only if the program that it runs has died of it, too.
#[test]
fn ctrl_c_ends_the_script_around_the_command() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::new(&store);
    session.line(&format!("cd {}", folder.path().display()));
    // With its output in a file the command has no terminal, and Ctrl-C goes to the script and to `distlock`.
    for (shell, output) in [("sh", ""), ("bash", ""), ("bash", " >out")] {
        session.line(&format!(
            "{shell} -c '$D run a -- sh -c \"echo started >&2; sleep 60\"{output}; echo went on'"
        ));
        session.expect("started\r");
        session.control('c');
        let shown = session.expect("ready$ ");
        assert!(!shown.contains("went on"), "{shell}{output}: {shown:?}");
        session.expect_code(130);
        assert!(queue(&store.url, "a").is_empty(), "{shell}{output}");
    }
}

#[test]
fn ctrl_c_while_waiting_ends_the_script_around_it() {
    let store = Store::any();
    let _holder = holding(&store.url, "a", &[]);
    let mut session = Session::new(&store);
    session.line("bash -c '$D run a -- true; echo went on'");
    session.expect("place 1 of 1");
    session.control('c');
    let shown = session.expect("ready$ ");
    assert!(!shown.contains("went on"), "{shown:?}");
    session.expect_code(130);
    assert_eq!(queue(&store.url, "a").len(), 1);
}

/// Whoever handles an interrupt decides what comes next, as in any script of bash.
#[test]
fn ctrl_c_that_the_command_handles_does_not_end_the_script() {
    let store = Store::any();
    let mut session = Session::new(&store);
    session.line(
        "sh -c '$D run a -- sh -c \"trap \\\"exit 5\\\" INT; echo started; read line; echo has read; while :; do sleep 0.01; done\"; \
         echo code $?'",
    );
    session.expect("started\r");
    // It can read only when it has the terminal. Before that, Ctrl-C goes to the script.
    session.line("go");
    session.expect("has read\r");
    session.control('c');
    session.expect("code 5\r");
    session.expect("ready$ ");
}

#[test]
fn a_command_in_a_pipeline_gets_the_terminal_when_it_wants_it() {
    let store = Store::any();
    let mut session = Session::new(&store);
    session.line("$D run a -- sh -c 'read line; echo \"<$line>\"' | tr a b");
    until_queued(&store.url, "a", 1);
    session.line("banana");
    session.expect("<bbnbnb>");
    session.expect("ready$ ");
    // Ctrl-C reaches the command in a pipeline, too.
    session.line("$D run a -- sh -c 'echo started >&2; sleep 60' | cat");
    session.expect("started\r");
    session.control('c');
    session.expect("ready$ ");
    assert!(queue(&store.url, "a").is_empty());
}

#[test]
fn a_job_can_be_stopped_and_continued() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::new(&store);
    session.line(&format!("cd {}", folder.path().display()));
    session.line("$D run a -- sh -c 'echo started; read line; echo \"<$line>\"'");
    session.expect("started\r");
    session.control('z');
    session.expect("the command killed, if it is not continued");
    session.expect("Stopped");
    session.expect("ready$ ");
    session.line("fg");
    session.expect("$D run");
    session.line("hello");
    session.expect("<hello>");
    session.expect("ready$ ");
    session.expect_code(0);
}

#[test]
fn a_job_that_stays_stopped_is_killed_before_anybody_else_is_admitted() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::new(&store);
    session.line(&format!("cd {}", folder.path().display()));
    // A shell that starts a program by vfork, as dash does, cannot be stopped until the program runs; and if the program is stopped before
    // that, both hang without a notification. So this shell starts none.
    session.line(&format!(
        "$D run a --ttl {SHORT} -- sh -c 'echo $$ > pid; echo started; read line; echo ran on > after'"
    ));
    session.expect("started\r");
    session.control('z');
    session.expect("Stopped");
    session.expect("ready$ ");
    // Dead, and not only stopped. It stays a zombie, because its parent is stopped.
    let process = fs::read_to_string(folder.path().join("pid")).unwrap();
    let is_dead = format!("grep -q ') Z ' /proc/{}/stat", process.trim());
    let next = outcome(&store.url, &["run", "a", "--", "sh", "-c", &is_dead]);
    assert_eq!(next.code, Some(0), "{next:?}");
    session.line("fg");
    session.expect("was lost");
    session.expect("ready$ ");
    session.expect_code(79);
    assert!(!folder.path().join("after").exists());
}

/// As with `docker run -it`, `ssh -t` and `xterm -e`. Any other program ignores Ctrl-Z there.
#[test]
fn ctrl_z_is_ignored_where_no_shell_can_continue_the_job() {
    let store = Store::any();
    let line = "echo started; read line; echo \"<$line>\"; read line";
    let mut run = distlock(&store.url, &["run", "a", "--", "sh", "-c", line]);
    run.stdin(Stdio::inherit());
    let mut session = Session::of(run);
    session.expect("started\r");
    session.control('z');
    session.line("hello");
    session.expect("<hello>\r");
    session.control('c');
    let mut ended = None;
    until("the end of the command", || {
        ended = session.0.process().status();
        ended != Some(WaitStatus::StillAlive)
    });
    assert!(matches!(ended, Some(WaitStatus::Signaled(_, Signal::SIGINT, _))), "{ended:?}");
    assert!(queue(&store.url, "a").is_empty());
}

/// A shell whose terminal another group has gets an error when it reads, and exits.
#[test]
fn a_job_that_ends_in_the_background_leaves_the_terminal_to_the_shell() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::new(&store);
    session.line(&format!("cd {}", folder.path().display()));
    session.line("mkfifo end; $D run a -- sh -c 'echo started; read line < end'");
    session.expect("started\r");
    session.control('z');
    session.expect("Stopped");
    session.expect("ready$ ");
    session.line("bg");
    session.expect("ready$ ");
    session.line("echo > end");
    session.expect("ready$ ");
    until("the end of the job", || queue(&store.url, "a").is_empty());
    session.expect_terminal();
}

#[test]
fn a_job_that_outlives_its_script_leaves_the_terminal_to_the_shell() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::new(&store);
    session.line(&format!("cd {}", folder.path().display()));
    session.line("mkfifo end; sh -c 'echo $$ > pid; $D run a -- sh -c \"echo started; read line < end\"; :'");
    session.expect("started\r");
    let script = until_written(&folder.path().join("pid")).parse().expect("the id of a process");
    kill(Pid::from_raw(script), Signal::SIGTERM).expect("a process of our own can be sent a signal");
    session.expect("ready$ ");
    session.line("echo > end");
    session.expect("ready$ ");
    until("the end of the job", || queue(&store.url, "a").is_empty());
    session.expect_terminal();
}

/// A job in the background that changes the modes of the terminal is stopped.
#[test]
fn a_job_that_loses_its_lock_in_the_background_ends_there() {
    let store = Store::any();
    let mut session = Session::new(&store);
    session.line("$D run a -- sh -c 'echo started; sleep 60' & wait $!");
    session.expect("started\r");
    let broken = outcome(&store.url, &["break", "a", "--yes"]);
    assert_eq!(broken.code, Some(0), "{broken:?}");
    session.expect("the command was stopped");
    session.expect("ready$ ");
    session.expect_code(79);
}

#[test]
fn a_waiter_sees_his_place_and_who_holds_the_lock() {
    let store = Store::any();
    let mut holder = Process::fed(&mut distlock(&store.url, &["hold", "a", "--label", "anna"]), b"");
    until_queued(&store.url, "a", 1);
    let mut first = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 2);
    let mut session = Session::new(&store);
    session.line("$D run a -- echo has it");
    session.expect("waiting for `a`: place 2 of 2 in the queue; held by anna (");
    holder.close_input();
    assert_eq!(holder.end().code, Some(0));
    session.expect("place 1 of 1 in the queue; held by ");
    first.close_input();
    assert_eq!(first.end().code, Some(0));
    session.expect("has it\r");
    session.expect("ready$ ");
    // An interrupt while waiting.
    let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 1);
    session.line("$D run a -- echo never");
    session.expect("place 1 of 1");
    session.control('c');
    session.expect("ready$ ");
    session.expect_code(130);
    assert_eq!(queue(&store.url, "a").len(), 1);
}

#[test]
fn a_lock_is_broken_on_a_terminal_only_after_a_yes() {
    let store = Store::any();
    let mut holder = Process::fed(&mut distlock(&store.url, &["hold", "a", "--label", "anna"]), b"");
    until_queued(&store.url, "a", 1);
    let mut session = Session::new(&store);
    for no in ["n", "", "yesterday"] {
        session.line("$D break a");
        session.expect("anna");
        session.expect("Take it away? [y/N]");
        session.line(no);
        session.expect("nothing was taken away");
        session.expect("ready$ ");
        session.expect_code(1);
    }
    assert!(holder.is_there());
    session.line("$D break a");
    session.expect("Take it away? [y/N]");
    session.line("y");
    session.expect("was taken away");
    session.expect("ready$ ");
    session.expect_code(0);
    assert_eq!(holder.end().code, Some(79));
}

#[test]
fn a_terminal_that_was_halted_does_not_hold_up_the_renewals() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::new(&store);
    session.line(&format!("cd {}", folder.path().display()));
    // The command writes to a terminal that is halted. Another process sees that the lock stays held for longer than a lease without
    // renewals.
    session.line(&format!(
        "$D run a --ttl {SHORT} -- sh -c 'echo started; read line; yes & until [ -e enough ]; do sleep 0.1; done; kill $!; \
         echo $? > done'"
    ));
    session.expect("started\r");
    session.line("go");
    session.control('s');
    let other = answered(|| outcome(&store.url, &["run", "a", "--wait", "12s", "--", "true"]));
    assert_eq!(other.code, Some(75), "{other:?}");
    fs::write(folder.path().join("enough"), "").unwrap();
    assert_eq!(until_written(&folder.path().join("done")), "0");
    session.control('q');
}
