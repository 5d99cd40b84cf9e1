//! Programs that tests make and run.
#![cfg(unix)]

use std::{
    fs,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use lock_conformance::copy_program;

/// A program that this process wrote itself is *busy* now and then.
#[test]
fn a_copied_program_runs_while_other_threads_start_programs() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("copy_program");
    // A leftover of an earlier run.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!(Command::new("true").status().unwrap().success());
                }
            });
        }
        let all = (0..200).all(|number| {
            let program = folder.join(number.to_string());
            copy_program("/bin/true", &program, 0o755);
            Command::new(program).status().is_ok_and(|ended| ended.success())
        });
        done.store(true, Ordering::Relaxed);
        assert!(all, "a program that was just copied can be run");
    });
}
