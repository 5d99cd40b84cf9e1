//! Completions of the shells.

use std::{
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use crate::{
    process::{Process, distlock, outcome, until_queued},
    store::Store,
};

/// Completes the last of some words as bash does, and prints what there is.
const TRY: &str = r#"
source <(distlock completions bash)
try() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _distlock_locks distlock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '%s|' "${COMPREPLY[@]}"
    echo
}
try distlock show jo
try distlock run --wait 5 -w 3 jobs/
try distlock --url redis : //h hold jobs/a
try distlock break zzz
try distlock sho
try distlock run jobs/a --gra
try distlock run jobs/a -- realpat
"#;

#[test]
fn bash_completes_the_names_of_locks_and_expands_nothing_in_them() {
    let store = Store::any();
    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_distlock"), folder.path().join("distlock")).unwrap();
    // The last one would create a file if it was expanded.
    let names = ["jobs/a", "jobs/b", "jobs/$(touch expanded)"];
    let _holders = names.map(|name| {
        let holder = Process::fed(&mut distlock(&store.url, &["hold", name]), b"");
        until_queued(&store.url, name, 1);
        holder
    });
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-c", TRY]).env("PATH", path).env("DISTLOCK_URL", &store.url).stdin(Stdio::null());
    let told = Process::start(shell.env("XDG_CONFIG_HOME", "/nonexistent").current_dir(&folder)).end();
    let lines: Vec<_> = told.stdout.lines().collect();
    let jobs = "jobs/\\$\\(touch\\ expanded\\)|jobs/a|jobs/b|";
    assert_eq!(lines[..6], [jobs, jobs, "jobs/a|", "|", "show|", "--grace|"], "{told:?}");
    assert!(lines[6].split('|').any(|command| command == "realpath"), "{told:?}");
    assert!(!folder.path().join("expanded").exists());
}

#[test]
fn list_writes_the_names_alone_on_request() {
    let store = Store::any();
    let _holder = Process::fed(&mut distlock(&store.url, &["hold", "a b"]), b"");
    until_queued(&store.url, "a b", 1);
    let listed = outcome(&store.url, &["list", "--names"]);
    assert_eq!((listed.code, listed.stdout.as_str()), (Some(0), "a b\n"), "{listed:?}");
    let none = outcome(&store.url, &["list", "zzz", "--names"]);
    assert_eq!((none.code, none.stdout.as_str(), none.stderr.as_str()), (Some(0), "", ""), "{none:?}");
}
