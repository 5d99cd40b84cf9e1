//! A disk that is full, read-only, slow or forgetful, for tests that run in a process of their own.

use std::{fs, path::Path, process::Command};

use lock_conformance::ran_nothing;

use crate::file::OwnFile;

/// Why a test does nothing in an ordinary run.
pub(crate) const A_PART: &str = "it is a part of another test, which runs it in a process of its own";

/// How often a process waited for the disk.
pub(crate) fn waits() -> u64 {
    fs::metadata(flag(".waits")).map_or(0, |waits| waits.len())
}

/// Runs one test of this binary in a process whose disk is full, read-only or slow while a flag file exists.
pub(crate) fn on_a_bad_disk(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (source, library) = (folder.path().join("disk.c"), folder.path().join("disk.so"));
    fs::write(&source, include_str!("disk.c")).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let built =
        Command::new(compiler).args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).output();
    let built = built.expect("a C compiler is needed for this test");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let output = again(
        test,
        folder.path(),
        &[("LD_PRELOAD", &library), ("DISTLOCK_DISK", &folder.path().join("disk"))],
    );
    assert!(output.contains("1 passed"), "{output}");
}

/// Runs one test of this binary in a process of its own, and returns its output.
pub(crate) fn again(test: &str, folder: &Path, variables: &[(&str, &Path)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("DISTLOCK_AGAIN", test)
        .env("TMPDIR", folder)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "in its own process, {test} failed:\n{said}");
    said
}

/// The file for a test that runs in such a process. None in an ordinary run.
pub(crate) fn here(test: &str) -> Option<OwnFile> {
    if std::env::var("DISTLOCK_AGAIN").as_deref() != Ok(test) {
        ran_nothing(test, A_PART);
        return None;
    }
    Some(OwnFile::new())
}

/// The path of a flag file.
pub(crate) fn flag(suffix: &str) -> String {
    std::env::var("DISTLOCK_DISK").unwrap() + suffix
}
