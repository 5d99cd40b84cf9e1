//! A lock that is lost, and a supervisor that cannot do its work: the command never works on without the lock.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lock_conformance::{Links, Proxy, copy_program, ran_nothing};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{
    process::{Outcome, Process, distlock, outcome, queue, until, until_queued, until_written},
    store::Store,
};

/// A command that ignores signals and updates `beat` all the time, in a child process.
const IGNORES_SIGNALS: &str =
    "trap '' TERM INT HUP; (while :; do date +%s%N > beat.new; mv beat.new beat; sleep 0.01; done) & wait";

/// The command of the next holder: checks whether `beat` still changes.
const CHECK_WORK: &str = "a=$(cat beat); sleep 0.2; [ \"$a\" = \"$(cat beat)\" ] && echo dead || echo alive";

/// A lease that ends within a test, and not by itself on a busy machine: renewals may fail for 3.7 s before the command is told to stop (on
/// a ttl of 3 s for 1.1 s), the supervisor kills half a second before the end, and the watchdog a quarter. No ttl gives those two more.
pub(crate) const SHORT: &str = "10s";

/// A holder whose command works, and a waiter that will check whether it still does.
pub(crate) struct Scene {
    _store: Store,
    folder: TempDir,
    pub(crate) holder: Process,
    pub(crate) next: Process,
}

impl Scene {
    /// The holder may reach the store through a proxy.
    pub(crate) fn new(store: Store, holders_url: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let run = |url: &str, args: &[&str], line: &str| {
            let mut command = distlock(url, &[&["run", "a"], args, &["--shell", "--", line]].concat());
            Process::start(command.current_dir(&folder))
        };
        let holder = run(holders_url, args, IGNORES_SIGNALS);
        until_written(&folder.path().join("beat"));
        let next = run(&store.url, &["--ttl", "60s"], CHECK_WORK);
        until_queued(&store.url, "a", 2);
        Self { _store: store, folder, holder, next }
    }

    pub(crate) fn works(&self) -> bool {
        works(self.folder.path())
    }
}

fn works(folder: &Path) -> bool {
    let beat = || fs::read_to_string(folder.join("beat")).unwrap();
    let before = beat();
    thread::sleep(Duration::from_millis(300));
    beat() != before
}

/// The next holder has found that nothing works any more.
pub(crate) fn assert_saw_no_work(next: Process) {
    let looked = next.end();
    assert_eq!((looked.code, looked.stdout.as_str()), (Some(0), "dead\n"), "{looked:?}");
}

pub(crate) fn assert_lost(holder: Process) -> Outcome {
    let lost = holder.end();
    assert_eq!(lost.code, Some(79), "{lost:?}");
    assert!(lost.stderr.contains("lock `a` was lost"), "{lost:?}");
    lost
}

#[test]
fn without_a_server_the_command_is_dead_before_the_next_is_admitted() {
    let store = Store::redis();
    let proxy = Proxy::start(store.address(), |_| false);
    let url = format!("redis://{}", proxy.address());
    let scene = Scene::new(store, &url, &["--ttl", SHORT]);
    proxy.silence(Links::All);
    assert_saw_no_work(scene.next);
    assert_lost(scene.holder);
}

#[test]
fn when_the_supervisor_is_killed_all_that_it_started_is_dead_at_once() {
    let store = Store::redis();
    let url = store.url.clone();
    // The test is over long before the lease ends.
    let mut scene = Scene::new(store, &url, &["--ttl", "1h"]);
    let holder = queue(&url, "a")[0]["entry"].as_str().unwrap().to_owned();
    scene.holder.signal(Signal::SIGKILL);
    until("the end of the supervisor", || !scene.holder.is_there());
    until("the end of all that it started", || !scene.works());
    assert_eq!(queue(&url, "a").len(), 2, "the lease has ended");
    let broken = outcome(&url, &["break", "a", "--entry", &holder, "--yes"]);
    assert_eq!(broken.code, Some(0), "{broken:?}");
    assert_saw_no_work(scene.next);
}

/// PR34: the command and the watchdog have the process file open, too.
#[test]
fn on_one_machine_the_next_is_admitted_once_a_killed_run_is_all_dead() {
    let store = Store::sqlite();
    let url = store.url.clone();
    let scene = Scene::new(store, &url, &["--ttl", "1h"]);
    scene.holder.signal(Signal::SIGKILL);
    assert_saw_no_work(scene.next);
}

/// PR34: a process that has left the group is not killed with it, and still has the process file open.
#[test]
fn on_one_machine_a_surviving_descendant_keeps_the_lock() {
    let store = Store::sqlite();
    let folder = tempfile::tempdir().unwrap();
    // A session of its own, which is not in the group. It ends by itself.
    let line = "setsid sh -c 'echo > ready; sleep 1; echo done > left' & wait";
    let mut command = distlock(&store.url, &["run", "a", "--ttl", "1h", "--shell", "--", line]);
    let holder = Process::start(command.current_dir(&folder).stdin(Stdio::null()));
    until_written(&folder.path().join("ready"));
    holder.signal(Signal::SIGKILL);
    let next =
        outcome(&store.url, &["run", "a", "--", "cat", &folder.path().join("left").display().to_string()]);
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "done\n"), "{next:?}");
}

/// Nobody renews the lease any more, and the descendant is not killed.
#[test]
fn a_descendant_that_left_keeps_a_dead_ones_lock_until_its_lease_ends() {
    let store = Store::sqlite();
    let folder = tempfile::tempdir().unwrap();
    // It also ends when the folder is removed.
    let work = "echo > ready; while [ -e ready -a ! -e enough ]; do sleep 0.01; done; echo done > left";
    let line = format!("setsid sh -c '{work}' & wait");
    let mut command = distlock(&store.url, &["run", "a", "--ttl", "2s", "--shell", "--", &line]);
    let holder = Process::start(command.current_dir(&folder));
    until_written(&folder.path().join("ready"));
    holder.signal(Signal::SIGKILL);
    let next = outcome(&store.url, &["run", "a", "--", "true"]);
    assert_eq!(next.code, Some(0), "{next:?}");
    // The descendant works on.
    assert!(!folder.path().join("left").exists());
    fs::write(folder.path().join("enough"), "").unwrap();
    assert_eq!(until_written(&folder.path().join("left")), "done");
}

#[test]
fn a_stopped_supervisors_command_is_dead_before_the_next_is_admitted() {
    let store = Store::any();
    let url = store.url.clone();
    let scene = Scene::new(store, &url, &["--ttl", SHORT]);
    scene.holder.signal(Signal::SIGSTOP);
    assert_saw_no_work(scene.next);
    scene.holder.signal(Signal::SIGCONT);
    assert_lost(scene.holder);
}

#[test]
fn a_command_that_hears_nothing_is_killed_when_the_grace_is_over() {
    let store = Store::any();
    let url = store.url.clone();
    let scene = Scene::new(store, &url, &["--grace", "1s"]);
    let started = Instant::now();
    let broken = outcome(&url, &["break", "a", "--yes"]);
    assert_eq!(broken.code, Some(0), "{broken:?}");
    let lost = assert_lost(scene.holder);
    assert!(started.elapsed() >= Duration::from_secs(1), "it was killed too early: {:?}", started.elapsed());
    assert!(lost.stderr.contains("the store says that it is gone"), "{lost:?}");
    assert!(!works(scene.folder.path()));
}

#[test]
fn a_command_that_hears_has_the_grace_for_its_last_words() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let line = "trap 'echo bye > word; exit 0' TERM; echo > ready; while :; do sleep 0.01; done";
    let holder = with_a_long_grace(&store, &folder, line);
    assert_eq!(outcome(&store.url, &["break", "a", "--yes"]).code, Some(0));
    assert_lost(holder);
    assert_eq!(until_written(&folder.path().join("word")), "bye");
}

#[test]
fn a_stopped_command_is_woken_to_hear_that_the_lock_is_lost() {
    assert_woken(
        "trap 'echo bye > word; exit 0' TERM; echo > ready; kill -STOP $$; while :; do sleep 0.01; done",
    );
}

/// As a shell that gets SIGTERM while it stops a job.
#[test]
fn a_command_that_stops_on_being_told_to_end_is_woken_for_its_last_words() {
    assert_woken(
        "trap 'kill -STOP $$; echo bye > word; exit 0' TERM; echo > ready; while :; do sleep 0.01; done",
    );
}

/// A command that is ready, with a grace that is longer than the test.
fn with_a_long_grace(store: &Store, folder: &TempDir, line: &str) -> Process {
    let run = ["run", "a", "--ttl", "1h", "--grace", "20m", "--shell", "--", line];
    let holder = Process::start(distlock(&store.url, &run).current_dir(folder));
    until_written(&folder.path().join("ready"));
    holder
}

/// It writes its last words long before the end of its grace.
fn assert_woken(line: &str) {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let holder = with_a_long_grace(&store, &folder, line);
    assert_eq!(outcome(&store.url, &["break", "a", "--yes"]).code, Some(0));
    assert_lost(holder);
    assert_eq!(until_written(&folder.path().join("word")), "bye");
}

/// No notification reports it, and no renewal is due: only the release can detect it.
#[test]
fn a_loss_that_only_the_release_notices_is_a_loss() {
    let store = Store::redis();
    let port = store.address().port().to_string();
    let line = ["run", "a", "--ttl", "60s", "--", "redis-cli", "-p", &port, "flushall"];
    let ended = outcome(&store.url, &line);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(79), "OK\n"), "{ended:?}");
    assert!(ended.stderr.contains("was lost before the command ended"), "{ended:?}");
}

#[test]
fn hold_ends_when_its_lock_is_lost() {
    let store = Store::any();
    let holder = Process::fed(&mut distlock(&store.url, &["hold", "a"]), b"");
    until_queued(&store.url, "a", 1);
    assert_eq!(outcome(&store.url, &["break", "a", "--yes"]).code, Some(0));
    assert_lost(holder);
}

#[test]
fn a_store_that_is_away_is_told_with_what_to_do() {
    let store = Store::redis();
    let url = format!("{}?connect_timeout=500ms", store.url);
    drop(store);
    let away = outcome(&url, &["run", "a", "--", "echo", "ran"]);
    assert_eq!((away.code, away.stdout.as_str()), (Some(69), ""), "{away:?}");
    assert!(away.stderr.contains("check its address"), "{away:?}");
}

/// A command with a process of root, whose supervisor runs as another user, as with sudo: that process cannot be signalled, and the
/// parent-death signal is cleared.
struct Elevated {
    store: Store,
    folder: TempDir,
    holder: Process,
}

/// A grace that is longer than the test.
const LONG_GRACE: &[&str] = &["--ttl", "1h", "--grace", "20m"];

/// Works as root until `enough` exists.
const AS_ROOT: &str = "./sudo --reuid=0 --regid=0 --clear-groups \
    sh -c 'echo > ready; until [ -e enough ]; do sleep 0.01; done; echo > done'";

impl Elevated {
    /// Runs a line of shell. `None` if this process is not root, and cannot use other users.
    fn start(test: &str, args: &[&str], line: &str) -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            ran_nothing(test, "it takes other users");
            return None;
        }
        let store = Store::redis();
        let folder = tempfile::tempdir().unwrap();
        // Other users may write there and run these programs; `sudo` is setuid root.
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        let [program, sudo] = ["distlock", "sudo"].map(|name| folder.path().join(name));
        copy_program(env!("CARGO_BIN_EXE_distlock"), &program, 0o755);
        copy_program("/usr/bin/setpriv", &sudo, 0o4755);

        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        // Its standard error goes into a file, which can be read while it runs.
        command.args(["sh", "-c", "exec \"$@\" 2>said", "sh"]).arg(program);
        command.args(["--url", &store.url, "run", "a"]).args(args).args(["--", "sh", "-c", line]);
        command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null()).current_dir(&folder);
        let holder = Process::start(&mut command);
        until_written(&folder.path().join("ready"));
        Some(Self { store, folder, holder })
    }

    fn break_lock(&self) {
        let broken = outcome(&self.store.url, &["break", "a", "--yes"]);
        assert_eq!(broken.code, Some(0), "{broken:?}");
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("said")).unwrap_or_default()
    }

    /// Waits for the warning that the command works on.
    fn until_warned(&self) {
        until("a word about what cannot be stopped", || {
            self.said().contains("runs as another user and cannot be stopped")
        });
        assert!(!self.folder.path().join("done").exists());
    }

    /// Ends the command, and with it its supervisor.
    fn finish(mut self) {
        assert!(self.holder.is_there(), "it has not ended, so its supervisor watches on");
        fs::write(self.folder.path().join("enough"), "").unwrap();
        let holder = self.holder;
        let ended = holder.end();
        let said = fs::read_to_string(self.folder.path().join("said")).unwrap();
        assert_eq!(ended.code, Some(77), "{ended:?}: {said}");
        assert!(said.contains("worked on without the lock"), "{said}");
        assert!(!said.contains("the command was stopped"), "{said}");
        assert!(self.folder.path().join("done").exists());
    }
}

#[test]
fn a_command_of_another_user_is_told_to_work_on_without_the_lock() {
    const TEST: &str = "a_command_of_another_user_is_told_to_work_on_without_the_lock";
    let Some(elevated) = Elevated::start(TEST, &["--grace", "0s"], &format!("exec {AS_ROOT}")) else {
        return;
    };
    elevated.break_lock();
    elevated.until_warned();
    elevated.finish();
}

/// SIGKILL is never sent: the command has ended before.
#[test]
fn a_command_of_another_user_that_ends_within_its_grace_was_not_stopped() {
    const TEST: &str = "a_command_of_another_user_that_ends_within_its_grace_was_not_stopped";
    let Some(elevated) = Elevated::start(TEST, LONG_GRACE, &format!("exec {AS_ROOT}")) else { return };
    elevated.break_lock();
    elevated.until_warned();
    elevated.finish();
}

/// A signal to the group reaches the other processes, and so is no error.
#[test]
fn a_child_of_another_user_is_told_to_work_on_when_the_others_have_ended() {
    const TEST: &str = "a_child_of_another_user_is_told_to_work_on_when_the_others_have_ended";
    let Some(elevated) = Elevated::start(TEST, LONG_GRACE, &format!("{AS_ROOT} & wait")) else { return };
    elevated.break_lock();
    elevated.until_warned();
    elevated.finish();
}

#[test]
fn a_watchdog_that_cannot_kill_says_so_where_the_supervisor_is_dead() {
    const TEST: &str = "a_watchdog_that_cannot_kill_says_so_where_the_supervisor_is_dead";
    let Some(elevated) = Elevated::start(TEST, &["--grace", "0s"], &format!("exec {AS_ROOT}")) else {
        return;
    };
    elevated.holder.signal(Signal::SIGKILL);
    elevated.until_warned();
    fs::write(elevated.folder.path().join("enough"), "").unwrap();
    until_written(&elevated.folder.path().join("done"));
}
