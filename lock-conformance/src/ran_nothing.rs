//! [`ran_nothing`]: reports that a test has shown nothing.

use std::{env, path::Path};

use crate::output::say;

/// The start of the line.
pub(crate) const RAN_NOTHING: &str = "ran nothing: ";

/// Reports that a test passes without having shown anything, and why, in a line on standard error that no runner captures:
///
/// ```text
/// ran nothing: lock-redis/conformance::contender: it is what cases start that need a client in a process of its own
/// ```
///
/// It is for declared cases, for tests that are the main function of another process, and for what cannot be shown on this system.
/// Scripts subtract these from the tests that passed. `test` is the path of the test in its program.
pub fn ran_nothing(test: &str, reason: &str) {
    say(&line(
        &env::current_dir().unwrap_or_default(),
        &env::current_exe().unwrap_or_default(),
        test,
        reason,
    ));
}

/// Cargo runs tests in the folder of their package. Several packages have a program of the same name.
fn line(folder: &Path, program: &Path, test: &str, reason: &str) -> String {
    let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (package, mut program) = (name(folder), name(program));
    // The hash that cargo appends to the name.
    if let Some((name, number)) = program.rsplit_once('-')
        && number.len() == 16
        && number.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        program = name.to_owned();
    }
    format!("{RAN_NOTHING}{package}/{program}::{test}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_runs_nothing_is_told_by_package_program_and_name() {
        let program = Path::new("/target/debug/deps/conformance-0123456789abcdef");
        let told = line(Path::new("/src/lock-redis"), program, "contender", "it is for others");
        assert_eq!(told, "ran nothing: lock-redis/conformance::contender: it is for others");
        let told = line(Path::new("/src/examples"), Path::new("/bin/no-number"), "a::b", "why");
        assert_eq!(told, "ran nothing: examples/no-number::a::b: why");
    }
}
