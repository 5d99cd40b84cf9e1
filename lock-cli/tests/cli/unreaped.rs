//! Zombies that stay, under an init that does not reap: many containers have such a first process.

use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use lock_conformance::ran_nothing;

use crate::{
    process::{Process, distlock, outcome, until, until_queued, until_written},
    store::Store,
};

/// The first process ends at SIGTERM. The other one ignores it, and becomes a child of the init.
const LINE: &str = "(trap '' TERM; echo > ready; while :; do sleep 0.01; done) & wait";

#[test]
fn a_command_whose_dead_stay_there_is_known_to_have_ended() {
    if !namespaces_are_there("unreaped::a_command_whose_dead_stay_there_is_known_to_have_ended") {
        return;
    }
    let store = Store::redis();
    let folder = tempfile::tempdir().unwrap();
    let run = ["run", "a", "--grace", "200ms", "--shell", "--", LINE];
    let mut command = unreaped("\"$@\" 2>said & exec sleep 1000", &store.url, &run);
    let _namespace = Process::start(command.current_dir(&folder));
    until_written(&folder.path().join("ready"));
    let broken = outcome(&store.url, &["break", "a", "--yes"]);
    assert_eq!(broken.code, Some(0), "{broken:?}");
    until("the end of the supervisor", || {
        let said = fs::read_to_string(folder.path().join("said")).unwrap_or_default();
        said.contains("lock `a` was lost") && said.contains("; the command was stopped")
    });
}

/// The watchdog has the process file open: it must not wait until the killed processes are reaped. One that does gives up after a
/// thousand milliseconds, so none of these takeovers is quicker then. On a busy machine a quick one may take several tries.
#[test]
fn a_killed_supervisor_whose_dead_stay_there_is_followed_soon() {
    const TRIES: usize = 5;
    const SOON: Duration = Duration::from_millis(900);
    if !namespaces_are_there("unreaped::a_killed_supervisor_whose_dead_stay_there_is_followed_soon") {
        return;
    }
    let mut took: Vec<Duration> = Vec::new();
    while !took.iter().any(|took| *took < SOON) {
        assert!(took.len() < TRIES, "the next holder was admitted after {took:?}");
        took.push(takeover());
    }
    println!("the next holder was admitted after {took:?}");
}

/// Kills a supervisor under an init that does not reap, and waits for the next holder.
fn takeover() -> Duration {
    const SCRIPT: &str = r#"
"$@" & supervisor=$!
until [ -e end ]; do sleep 0.01; done
date +%s%N > killed
kill -KILL "$supervisor"
exec sleep 1000
"#;
    let store = Store::sqlite();
    let folder = tempfile::tempdir().unwrap();
    let run = ["run", "a", "--ttl", "1h", "--", "sh", "-c", "echo > ready; exec sleep 1000"];
    let _namespace = Process::start(unreaped(SCRIPT, &store.url, &run).current_dir(&folder));
    until_written(&folder.path().join("ready"));
    let next = Process::start(&mut distlock(&store.url, &["run", "a", "--", "date", "+%s%N"]));
    until_queued(&store.url, "a", 2);
    fs::write(folder.path().join("end"), "").unwrap();
    let admitted = next.end();
    assert_eq!(admitted.code, Some(0), "{admitted:?}");
    let nanos = |text: &str| text.trim().parse::<u64>().expect("a time in nanoseconds");
    let killed = nanos(&until_written(&folder.path().join("killed")));
    Duration::from_nanos(nanos(&admitted.stdout).saturating_sub(killed))
}

/// Whether a process namespace can be made here. Says that the test has shown nothing if not.
fn namespaces_are_there(test: &str) -> bool {
    let tried = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
    let there = tried.is_ok_and(|tried| tried.status.success());
    if !there {
        ran_nothing(test, "it takes a process namespace");
    }
    there
}

/// The first process of a namespace, which becomes one that reaps no children: a script of shell, whose arguments are the command. It
/// ends with the test.
fn unreaped(script: &str, url: &str, args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_distlock"), "--url", url]).args(args);
    command.env("XDG_CONFIG_HOME", "/nonexistent").env_remove("DISTLOCK_URL").stdin(Stdio::null());
    command
}
