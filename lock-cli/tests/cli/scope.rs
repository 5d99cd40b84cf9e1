//! Which users and machines share the locks, and that help and `doctor` say so.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use lock_conformance::ran_nothing;
use nix::unistd::Group;
use serde_json::Value;

use crate::{
    process::{Process, outcome},
    store::Store,
    usage::for_everybody,
};

#[test]
fn help_and_doctor_say_whose_the_default_locks_are() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
        command
            .env_remove("DISTLOCK_URL")
            .env_remove("XDG_STATE_HOME")
            .env("XDG_CONFIG_HOME", "/nonexistent");
        Process::start(command.env("HOME", home.path()).args(args).stdin(Stdio::null())).end()
    };
    // Without line breaks.
    let help = run(&["--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let (before_usage, options) = help.split_once("Usage:").expect("help has a usage");
    assert!(before_usage.contains("this user, this machine"), "{help}");
    assert!(options.contains("this user, this machine"), "{help}");

    let told = run(&["doctor"]);
    let first = told.stdout.lines().nth(1).unwrap_or_default();
    assert!(first.starts_with("  shared by ") && first.contains("this user, this machine:"), "{told:?}");
    let report: Value = serde_json::from_str(&run(&["doctor", "--json"]).stdout).expect("JSON");
    assert!(
        report["facts"]["shared by"].as_str().unwrap().starts_with("this user, this machine"),
        "{report}"
    );
}

/// A user can have several default files, and a job that is started by hand and by cron uses two of them.
#[test]
fn doctor_says_which_variable_has_chosen_the_default_file() {
    let home = tempfile::tempdir().unwrap();
    for (variable, file) in
        [("HOME", ".local/state/distlock/locks.db"), ("XDG_STATE_HOME", "own/distlock/locks.db")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
        command
            .env_remove("DISTLOCK_URL")
            .env_remove("XDG_STATE_HOME")
            .env("XDG_CONFIG_HOME", "/nonexistent");
        // HOME is set in any case.
        command.env(variable, home.path().join("own")).env("HOME", home.path());
        let told = Process::start(command.args(["doctor", "--json"]).stdin(Stdio::null())).end();
        let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
        let facts = &report["facts"];
        assert_eq!(facts["file chosen by"], variable, "{report}");
        assert!(facts["file"].as_str().unwrap().ends_with(file), "{report}");
        assert!(facts["shared by"].as_str().unwrap().ends_with("another XDG_STATE_HOME or HOME"), "{report}");
    }
    let named = outcome(&Store::sqlite().url, &["doctor", "--json"]);
    assert!(!named.stdout.contains("file chosen by"), "{named:?}");
}

#[test]
fn doctor_says_who_shares_a_store_that_was_named() {
    for (store, expected) in [
        (Store::sqlite(), "this machine: those users who may write to the file"),
        (Store::redis(), "all machines and users who use this server"),
    ] {
        let told = outcome(&store.url, &["doctor"]);
        let first = told.stdout.lines().nth(1).unwrap_or_default();
        assert!(first.starts_with("  shared by ") && first.contains(expected), "{told:?}");
    }
}

#[test]
fn a_file_that_another_user_keeps_to_himself_is_told_as_that() {
    const TEST: &str = "scope::a_file_that_another_user_keeps_to_himself_is_told_as_that";
    if !nix::unistd::geteuid().is_root() {
        return ran_nothing(TEST, "it takes another user");
    }
    let folder = for_everybody();
    let path = folder.path().join("locks.db");
    let url = format!("sqlite:{}", path.display());
    assert_eq!(outcome(&url, &["list"]).code, Some(0));
    let mut command = Command::new("setpriv");
    command.args(["--reuid=54321", "--regid=54321", "--clear-groups"]).arg(folder.path().join("distlock"));
    command.args(["--url", &url, "list"]).env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
    let told = Process::start(&mut command).end();
    assert_eq!(told.code, Some(69), "{told:?}");
    let expected = format!("this user may not read and write {}\n", path.display());
    assert!(told.stderr.contains(&expected) && !told.stderr.contains("check the path"), "{told:?}");
}

/// Prepares a machine as root, in a mount namespace with an empty `/var/lib`.
const MACHINE: &str = r#"
mount -t tmpfs -o mode=755 none /var/lib
as() { user=$1 group=$2; shift 2; setpriv --reuid="$user" --regid="$group" --clear-groups "$D" --machine "$@"; }
as 54321 "$G" list; echo "before: $?"
by_url() { DISTLOCK_URL=sqlite:machine setpriv --reuid=54322 --regid="$G" --clear-groups "$D" "$@"; }
by_url list; echo "by url, too early: $?"
"$D" setup-machine --group nobody-has-this-group; echo "no group: $?"
"$D" setup-machine --group daemon; echo "setup: $?"
"$D" setup-machine --group daemon; echo "again: $?"
"$D" setup-machine --group root; echo "for others: $?"
stat -c 'modes: %a %g' /var/lib/distlock /var/lib/distlock/locks.db
as 54321 "$G" run job -- sh -c 'echo > held; while [ ! -e enough ]; do sleep 0.01; done' &
for i in $(seq 3000); do [ -e held ] && break; sleep 0.01; done
as 54322 "$G" run job -n true; echo "busy: $?"
by_url run job -n true; echo "by url: $?"
touch enough
wait
as 54322 "$G" run job -w 30 true; echo "free: $?"
as 54323 54323 list; echo "stranger: $?"
"$D" --machine doctor; echo "doctor: $?"
"#;

#[test]
fn the_locks_of_a_machine_are_for_a_group_of_users_once_prepared() {
    const TEST: &str = "scope::the_locks_of_a_machine_are_for_a_group_of_users_once_prepared";
    let tried = Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    let group = Group::from_name("daemon").unwrap();
    let (Some(group), true) = (group, tried.is_ok_and(|tried| tried.status.success())) else {
        return ran_nothing(TEST, "it takes root, a namespace and a group called daemon");
    };
    let folder = for_everybody();
    // Each of the users may write there.
    let work = tempfile::tempdir().unwrap();
    fs::set_permissions(&work, Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", MACHINE]).env("D", folder.path().join("distlock"));
    command.env("G", group.gid.to_string()).env("XDG_CONFIG_HOME", "/nonexistent").env_remove("DISTLOCK_URL");
    let told = Process::start(command.current_dir(&work).stdin(Stdio::null())).end();
    let modes = [2770, 660].map(|mode| format!("modes: {mode} {}\n", group.gid));
    for expected in [
        "before: 64\n",
        "by url, too early: 64\n",
        "no group: 64\n",
        "setup: 0\n",
        "again: 0\n",
        "for others: 69\n",
        &modes.concat(),
        "busy: 75\n",
        "by url: 75\n",
        "free: 0\n",
        "stranger: 69\n",
        "this machine: those users who may write to the file",
        "doctor: 0\n",
    ] {
        assert!(told.stdout.contains(expected), "{expected:?}: {}\n{}", told.stdout, told.stderr);
    }
    assert!(told.stderr.contains("try: sudo distlock setup-machine --group NAME"), "{}", told.stderr);
}
