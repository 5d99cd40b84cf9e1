//! Whom the locks are for, and that this is said before anybody relies on more.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{
    process::{Process, outcome},
    store::Store,
};

#[test]
fn help_and_doctor_say_that_the_default_locks_are_of_this_user_and_machine() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
        command
            .env_remove("DISTLOCK_URL")
            .env_remove("XDG_STATE_HOME")
            .env("XDG_CONFIG_HOME", "/nonexistent");
        Process::start(command.env("HOME", home.path()).args(args).stdin(Stdio::null())).end()
    };
    // Wherever its lines are broken.
    let help = run(&["--help"]).said.split_whitespace().collect::<Vec<_>>().join(" ");
    let (before_usage, options) = help.split_once("Usage:").expect("help has a usage");
    assert!(before_usage.contains("this user, this machine"), "{help}");
    assert!(options.contains("this user, this machine"), "{help}");

    let told = run(&["doctor"]);
    let first = told.said.lines().nth(1).unwrap_or_default();
    assert!(first.starts_with("  shared by ") && first.contains("this user, this machine:"), "{told:?}");
    let report: Value = serde_json::from_str(&run(&["doctor", "--json"]).said).expect("JSON");
    assert!(
        report["facts"]["shared by"].as_str().unwrap().starts_with("this user, this machine"),
        "{report}"
    );
}

#[test]
fn doctor_says_who_shares_a_store_that_was_named() {
    for (store, expected) in [
        (Store::sqlite(), "this machine: those users who may write to the file"),
        (Store::redis(), "all machines and users who use this server"),
    ] {
        let told = outcome(&store.url, &["doctor"]);
        let first = told.said.lines().nth(1).unwrap_or_default();
        assert!(first.starts_with("  shared by ") && first.contains(expected), "{told:?}");
    }
}
