//! Finds the programs of the examples.

use std::{env, path::PathBuf};

mod end_without_close;

pub(crate) use end_without_close::assert_that_ends_leave_no_lock;

/// The program of an example. Cargo builds them together with the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    let profile = test.ancestors().nth(2).expect("a test is in `deps` of its profile");
    let built = profile.join("examples").join(format!("{name}{}", env::consts::EXE_SUFFIX));
    assert!(built.exists(), "{} is not built; run `cargo test -p examples` without --test", built.display());
    built
}
