//! Zombies that stay, under an init that does not reap: many containers have such a first process.

use std::{
    fs,
    process::{Command, Stdio},
};

use lock_conformance::ran_nothing;

use crate::{
    process::{Process, outcome, until, until_written},
    store::Store,
};

/// The first process ends at SIGTERM. The other one ignores it, and becomes a child of the init.
const LINE: &str = "(trap '' TERM; echo > ready; while :; do sleep 0.01; done) & wait";

#[test]
fn a_command_whose_dead_stay_there_is_known_to_have_ended() {
    const TEST: &str = "unreaped::a_command_whose_dead_stay_there_is_known_to_have_ended";
    let tried = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return ran_nothing(TEST, "it takes a process namespace");
    }
    let store = Store::redis();
    let folder = tempfile::tempdir().unwrap();
    // The first process of the namespace becomes one that reaps no children. It ends with the test.
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
    command.args([
        "\"$@\" 2>said & exec sleep 1000",
        "sh",
        env!("CARGO_BIN_EXE_distlock"),
        "--url",
        &store.url,
    ]);
    command.args(["run", "a", "--grace", "200ms", "--shell", "--", LINE]);
    command.env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null()).current_dir(&folder);
    let _namespace = Process::start(&mut command);
    until_written(&folder.path().join("ready"));
    let broken = outcome(&store.url, &["break", "a", "--yes"]);
    assert_eq!(broken.code, Some(0), "{broken:?}");
    until("the end of the supervisor", || {
        let said = fs::read_to_string(folder.path().join("said")).unwrap_or_default();
        said.contains("lock `a` was lost") && said.contains("; the command was stopped")
    });
}
