//! Bugs of the engine: switches in a copy of its source, one of which is turned on by a variable of the environment.

mod switches;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use serde_json::Value;

pub(crate) use self::switches::BUGS;
use self::switches::{InEngine, LIBRARY, VARIABLE};

/// The suite on memory, with all switches built in.
fn suite() -> &'static Path {
    static SUITE: OnceLock<PathBuf> = OnceLock::new();
    SUITE.get_or_init(build)
}

/// Builds in a folder of its own: in that of this test it would replace crates on which documentation tests still stand.
fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let this = std::env::current_exe().expect("a test knows its path");
    let target = this.ancestors().nth(3).expect("a test stands in target/profile/deps");
    let copy = target.join("bug-bank");
    copy_tree(&root, Path::new(""), &copy);
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = Command::new(cargo)
        .current_dir(&copy)
        .args([
            "test",
            "--locked",
            "--offline",
            "--package",
            "lock-conformance",
            "--all-features",
            "--test",
            "memory",
        ])
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .output()
        .expect("cargo can be run");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the copy with the switches does not compile:\n{said}");
    let artifacts = String::from_utf8_lossy(&built.stdout).into_owned();
    let artifacts = artifacts.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut suite = artifacts.filter(|artifact| artifact["target"]["name"] == "memory");
    let suite = suite.find_map(|artifact| artifact["executable"].as_str().map(PathBuf::from));
    suite.expect("cargo says where the test is")
}

/// Copies what cargo needs. A file that is as it should be is not touched, so that nothing is built twice. What goes while
/// this looks is no source: a server that another test started here writes files of its own.
fn copy_tree(root: &Path, at: &Path, to: &Path) {
    let Some(files) = unless_gone(fs::read_dir(root.join(at))) else { return };
    fs::create_dir_all(to.join(at)).expect("a folder below target can be made");
    for file in files {
        let file = file.expect("the source can be read");
        let name = at.join(file.file_name());
        let hidden = file.file_name().to_string_lossy().starts_with('.');
        if hidden || name == Path::new("target") {
            continue;
        }
        if unless_gone(file.file_type()).is_some_and(|kind| kind.is_dir()) {
            copy_tree(root, &name, to);
            continue;
        }
        let Some(text) = unless_gone(fs::read(file.path())) else { continue };
        let text = switched(&name, text);
        if to.join(&name).is_dir() {
            // An older source had a folder of that name.
            fs::remove_dir_all(to.join(&name)).expect("a folder below target can be removed");
        }
        if fs::read(to.join(&name)).ok().as_ref() != Some(&text) {
            fs::write(to.join(&name), text).expect("a file below target can be written");
        }
    }
}

fn unless_gone<T>(read: io::Result<T>) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("the source cannot be read: {error}"),
    }
}

/// The source of a file with its switches.
fn switched(name: &Path, text: Vec<u8>) -> Vec<u8> {
    let switches = BUGS.iter().flat_map(|bug| bug.switches.iter().map(move |switch| (bug.id, switch)));
    let mut here = std::iter::once(("all", &LIBRARY))
        .chain(switches)
        .filter(|(_, switch)| name == Path::new("lock-core/src").join(switch.file))
        .peekable();
    if here.peek().is_none() {
        return text;
    }
    let mut text = String::from_utf8(text).expect("source is text");
    for (id, switch) in here {
        let places = text.matches(switch.from).count();
        let file = switch.file;
        assert_eq!(
            places, 1,
            "{id}: where is this in {file} now? The switch has to follow it.\n{}",
            switch.from
        );
        text = text.replacen(switch.from, switch.to, 1);
    }
    text.into_bytes()
}

fn run(bug: &InEngine, on: bool) -> Output {
    let (group, case) = bug.case;
    let mut suite = Command::new(suite());
    suite.args([&format!("{group}::{case}"), "--exact", "--test-threads=1"]);
    if on {
        suite.env(VARIABLE, bug.id);
    }
    suite.output().expect("the suite can be run")
}

fn is_found(id: &str) {
    let bug = BUGS.iter().find(|bug| bug.id == id).expect("it is in the list");
    let (group, case) = bug.case;
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let sound = run(bug, false);
    let passes = sound.status.success() && said(&sound).contains("1 passed");
    assert!(passes, "{group}::{case} fails without the bug, or is not there:\n{}", said(&sound));
    let broken = run(bug, true);
    assert!(!broken.status.success(), "{group}::{case} does not find {id}");
    let found = said(&broken).contains("1 failed") && said(&broken).contains(bug.says);
    assert!(found, "{group}::{case} found something else than {id}:\n{}", said(&broken));
}

#[test]
fn b02_a_clock_that_does_not_count_sleep_is_found() {
    is_found("b02");
}

#[test]
fn b06_a_grant_that_is_not_looked_at_again_is_found() {
    is_found("b06");
}

#[test]
fn b10_a_waiter_that_looks_only_when_told_to_is_found() {
    is_found("b10");
}

#[test]
fn b16_a_dropped_future_that_leaves_its_entry_is_found() {
    is_found("b16");
}

#[test]
fn b17_renewals_that_end_with_the_first_error_are_found() {
    is_found("b17");
}

#[test]
fn b18_renewals_that_go_on_after_a_release_are_found() {
    is_found("b18");
}

#[test]
fn b19_a_signal_that_is_given_only_once_is_found() {
    is_found("b19");
}

#[test]
fn b26_a_drop_that_needs_a_runtime_is_found() {
    is_found("b26");
}

#[test]
fn b27_a_driver_that_sends_again_by_itself_is_found() {
    is_found("b27");
}

#[test]
fn b30_a_fork_that_releases_the_locks_of_its_parent_is_found() {
    is_found("b30");
}
