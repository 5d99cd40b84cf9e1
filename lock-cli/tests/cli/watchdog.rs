//! A watchdog that is killed or stopped, and a supervisor without one.

use std::{
    fs,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    loss::{SHORT, Scene, assert_lost, assert_saw_no_work},
    process::{Process, distlock, outcome, until, until_written},
    store::Store,
};

#[test]
fn a_watchdog_that_was_killed_is_started_again_and_does_its_duty() {
    let store = Store::any();
    let url = store.url.clone();
    let scene = Scene::new(store, &url, &["--ttl", SHORT]);
    let first = watchdog(&scene.holder).expect("a supervisor has a watchdog");
    kill(first, Signal::SIGKILL).unwrap();
    until("another watchdog", || watchdog(&scene.holder).is_some_and(|other| other != first));
    // From its start it knows which group to kill, and when.
    scene.holder.signal(Signal::SIGSTOP);
    assert_saw_no_work(scene.next);
    scene.holder.signal(Signal::SIGCONT);
    let told = assert_lost(scene.holder).stderr;
    assert!(told.contains("the watchdog has ended (signal: 9 (SIGKILL)), and was started again"), "{told}");
}

/// Nobody would kill it if the supervisor was stopped.
#[test]
fn a_command_whose_watchdogs_all_end_at_once_is_stopped() {
    let store = Store::any();
    let url = store.url.clone();
    let mut scene = Scene::new(store, &url, &["--ttl", "30s", "--grace", "1s"]);
    until("the end of the command", || {
        if let Some(watchdog) = watchdog(&scene.holder) {
            // It may have ended meanwhile.
            let _ = kill(watchdog, Signal::SIGKILL);
        }
        !scene.holder.is_there()
    });
    let told = assert_lost(scene.holder).stderr;
    assert!(told.contains("its watchdog has ended, and there is no other"), "{told}");
    assert_saw_no_work(scene.next);
}

/// The watchdog would kill the command a little later. This one is stopped.
#[test]
fn the_supervisor_itself_kills_a_command_that_hears_nothing() {
    let store = Store::any();
    let url = store.url.clone();
    let scene = Scene::new(store, &url, &["--grace", "1s"]);
    let watchdog = watchdog(&scene.holder).expect("a supervisor has a watchdog");
    let command = children(&scene.holder).into_iter().find(|child| *child != watchdog);
    let command = command.expect("a supervisor has a command");
    kill(watchdog, Signal::SIGSTOP).unwrap();
    let started = Instant::now();
    assert_eq!(outcome(&url, &["break", "a", "--yes"]).code, Some(0));
    // A process that writes nothing may be alive without processor time; a dead one is reaped.
    until("the end of the command", || !children(&scene.holder).contains(&command));
    assert!(started.elapsed() >= Duration::from_secs(1), "it was killed too early: {:?}", started.elapsed());
    until("the end of all that it started", || !scene.works());
    // The supervisor waits for it at the end.
    kill(watchdog, Signal::SIGCONT).unwrap();
    assert_lost(scene.holder);
}

/// On a busy machine the watchdog may end late, and the next holder must not wait for that.
#[test]
fn a_lock_is_free_before_the_watchdog_has_ended() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    let line = "echo > ready; until [ -e enough ]; do sleep 0.01; done";
    let holder = Process::start(distlock(&store.url, &["run", "a", "-c", line]).current_dir(&folder));
    until_written(&folder.path().join("ready"));
    let watchdog = watchdog(&holder).expect("a supervisor has a watchdog");
    kill(watchdog, Signal::SIGSTOP).unwrap();
    fs::write(folder.path().join("enough"), "").unwrap();
    let next = outcome(&store.url, &["run", "a", "-w", "20", "--", "echo", "ran"]);
    kill(watchdog, Signal::SIGCONT).unwrap();
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "ran\n"), "{next:?}");
    assert_eq!(holder.end().code, Some(0));
}

/// The process that watches over this supervisor, if there is one.
fn watchdog(supervisor: &Process) -> Option<Pid> {
    // A process that has ended has no command line.
    let is_watchdog = |child: &Pid| {
        fs::read_to_string(format!("/proc/{child}/cmdline")).is_ok_and(|line| line.contains("__watchdog"))
    };
    children(supervisor).into_iter().find(is_watchdog)
}

/// The children of this supervisor: the watchdog and the command.
fn children(supervisor: &Process) -> Vec<Pid> {
    let pid = supervisor.pid();
    // There is no such file after its end.
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let pid_of = |child: &str| Pid::from_raw(child.parse().expect("it is a number"));
    children.split_whitespace().map(pid_of).collect()
}
