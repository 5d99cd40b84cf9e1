//! A process in which the wall clock jumps, so that code which relies on it fails.

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use crate::shared_library;

/// Set in the process where the wall clock jumps.
const VARIABLE: &str = "DISTLOCK_WALL_CLOCK_JUMPS";

/// Stands between the process and its C library.
const SHIM: &str = include_str!("jumping_clock.c");

/// Whether this is that process.
pub(super) fn jumps_here() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Runs one test of this binary in a process where the wall clock jumps, and fails if the test fails. Only on Linux can the clock of a
/// single process be made to jump: elsewhere the test notices that its clock does not jump, and fails.
pub(super) async fn run_where_it_jumps(test: &'static str) {
    let run = tokio::task::spawn_blocking(move || {
        let library = Library::build();
        let binary = std::env::current_exe().expect("the test binary knows its path");
        Command::new(binary)
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env("LD_PRELOAD", &library.0)
            .env(VARIABLE, "1")
            .output()
            .expect("the test binary can be started once more")
    });
    let output = run.await.expect("nothing panics there");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "where the wall clock jumps, {test} fails:\n{said}");
    assert!(said.contains("1 passed"), "{test} is not the path of a test:\n{said}");
}

/// Checks that the wall clock really jumps in this process.
pub(super) async fn assert_jumping() {
    let (mut earliest, mut latest) = (SystemTime::now(), SystemTime::now());
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        earliest = earliest.min(SystemTime::now());
        latest = latest.max(SystemTime::now());
        if latest.duration_since(earliest).is_ok_and(|spread| spread > Duration::from_secs(6000)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the wall clock does not jump, so nothing was shown");
}

/// The shim as a shared library in a folder of its own, removed when dropped.
struct Library(PathBuf);

impl Library {
    fn build() -> Self {
        let folder = std::env::temp_dir().join(format!("distlock-jumping-clock-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder can be created");
        Self(shared_library(&folder, "jumping_clock", SHIM))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Some(folder) = self.0.parent() {
            // A leftover in the folder for temporary files does not matter.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
