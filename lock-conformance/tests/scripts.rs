//! The scripts that run tests are red when they have to be: shown with programs that only pretend to be tests.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use lock_conformance::ran_nothing;

const GOOD: &str = "echo 'test a::b ... ok <0.010s>'\necho 'test result: ok. 1 passed; 0 failed; 0 ignored'";

#[test]
fn a_run_whose_tests_pass_is_green_and_says_how_many() {
    let said = green(&run_tests("green", &[GOOD], &[]));
    // Once beside others and once alone: this program does not look at what it is asked for.
    assert!(said.contains("\n2 passed, 0 failed, 0 skipped\n"), "{said}");
    assert!(said.contains("green-package-program-0::a::b"), "the slowest are named: {said}");
}

#[test]
fn a_test_that_fails_is_red_and_its_message_is_shown() {
    let program = "echo 'test a::b ... FAILED <0.010s>'\nprintf '\\nfailures:\\n\\nit was granted twice\\n'\n\
        printf '\\nfailures:\\n    a::b\\n\\n'\necho 'test result: FAILED. 0 passed; 1 failed; 0 ignored'\nexit 101";
    let said = red(&run_tests("failing", &[program, GOOD], &[]));
    assert!(said.contains("it was granted twice"), "{said}");
    assert!(said.contains("\n2 passed, 2 failed, 0 skipped\n"), "{said}");
}

#[test]
fn a_failure_with_a_long_message_hides_neither_the_others_nor_the_sum() {
    let program = "echo 'test a::b ... FAILED <0.010s>'\nprintf '\\nfailures:\\n\\n---- a::b stdout ----\\n'\n\
        seq 100000\necho '---- a::c stdout ----'\necho 'it was granted twice'\n\
        printf '\\nfailures:\\n    a::b\\n    a::c\\n\\n'\necho 'test result: FAILED. 0 passed; 2 failed; 0 ignored'\nexit 101";
    let said = red(&run_tests("talkative", &[program, GOOD], &[]));
    assert!(said.contains("the rest is in the log") && said.contains("it was granted twice"), "{said}");
    assert!(said.contains("\n2 passed, 4 failed, 0 skipped\n"), "{said}");
}

#[test]
fn a_program_that_ends_without_a_result_is_red() {
    for program in ["echo 'test a::b ... ok <0.010s>'\nkill -SEGV $$", "exit 0", "echo not a test; exit 3"] {
        let said = red(&run_tests("crashing", &[GOOD, program], &[]));
        assert!(said.contains("no result of its tests"), "{program}: {said}");
    }
}

#[test]
fn a_program_that_fails_after_its_tests_passed_is_red() {
    red(&run_tests("late", &[&format!("{GOOD}\nexit 134")], &[]));
}

#[test]
fn a_program_that_hangs_is_ended_and_red() {
    let said = red(&run_tests("hanging", &["exec sleep 600"], &[("PROGRAM_LIMIT", "1")]));
    assert!(said.contains("ended with 124"), "{said}");
}

#[test]
fn a_run_without_a_test_is_red() {
    let none = "echo 'running 0 tests'; echo 'test result: ok. 0 passed; 0 failed; 0 ignored'";
    red(&run_tests("empty", &[none], &[]));
    red(&run_tests("nothing", &[], &[]));
}

#[test]
fn tests_that_ran_nothing_are_counted_apart() {
    // The reason, from both runs of the program.
    let program = format!("{GOOD}\necho 'ran nothing: memory::a::b: there is no server' >&2");
    let said = green(&run_tests("idle", &[&program, GOOD], &[]));
    assert!(said.contains("\n3 passed, 0 failed, 0 skipped\n"), "{said}");
    assert!(said.contains("there is no server"), "{said}");
}

#[test]
fn more_than_three_excuses_are_red_unless_any_number_is_allowed() {
    let program = |excuses: usize| {
        format!(
            "{GOOD}\n[ -e once ] || for i in $(seq {excuses}); do echo '{{}}' >>\"$DISTLOCK_EXCUSES\"; done\ntouch once"
        )
    };
    let said = green(&run_tests("excused", &[&program(3)], &[]));
    assert!(said.contains("3 excused"), "{said}");
    let said = red(&run_tests("often-excused", &[&program(4)], &[]));
    assert!(said.contains("4 failures were excused, and 3 are allowed"), "{said}");
    green(&run_tests("busy", &[&program(4)], &[("DISTLOCK_EXCUSES_ALLOWED", "any")]));
}

#[test]
fn what_counts_resources_runs_after_everything_else_and_alone() {
    let program = format!("echo \"$(basename $0) $*\" >>../order\n{GOOD}");
    let folder = folder("order");
    green(&run_in(&folder, &[&program, &program], &[]));
    let order = fs::read_to_string(folder.join("order")).unwrap();
    let lines: Vec<_> = order.lines().collect();
    assert_eq!(lines.len(), 4, "{order}");
    assert!(lines[..2].iter().all(|line| line.contains("--skip resources:: --skip alone::")), "{order}");
    assert!(lines[2..].iter().all(|line| line.contains("--test-threads=1 resources:: alone::")), "{order}");
}

/// Sessions are what the kernel shares the cores among in the group of the whole system only.
#[test]
fn tests_share_the_cores_as_threads_and_not_as_sessions() {
    let program = format!("grep -h '[:,]cpu[,:]' /proc/self/cgroup >>../groups\n{GOOD}");
    let folder = folder("groups");
    green(&run_in(&folder, &[&program], &[("CORES_ARE_SHARED", "")]));
    let groups = fs::read_to_string(folder.join("groups")).unwrap();
    let sessions =
        fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").is_ok_and(|on| on.trim() == "1");
    let (test, probe) =
        ("tests_share_the_cores_as_threads_and_not_as_sessions", Path::new("/sys/fs/cgroup/cpu/probe"));
    if !sessions || fs::create_dir(probe).is_err() {
        return ran_nothing(test, "sessions are told apart, and no control group can be made, or neither");
    }
    fs::remove_dir(probe).unwrap();
    assert!(!groups.is_empty() && groups.lines().all(|group| !group.ends_with(":/")), "{groups}");
}

#[test]
fn a_suite_whose_command_fails_although_no_test_does_is_red() {
    let folder = folder("conformance");
    let suite = "echo ' Running tests/conformance.rs (target/x)'\necho 'test a::b ... ok'\necho 'test result: ok. 1 passed'";
    let conformance = |name: &str, script: &str| {
        let program = write_program(&folder.join(name), script);
        let output =
            script_of("conformance").arg("fake:1").arg(folder.join("row")).arg(program).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (good, said) = conformance("good", suite);
    assert!(good, "{said}");
    let (good, said) = conformance("bad", &format!("{suite}\nexit 101"));
    assert!(!good && said.contains("ended with 101"), "{said}");
}

fn green(output: &Output) -> String {
    let said = said(output);
    assert!(output.status.success(), "{said}");
    said
}

fn red(output: &Output) -> String {
    let said = said(output);
    assert!(!output.status.success(), "{said}");
    said
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs the pretended test programs as the gate runs the real ones.
fn run_tests(name: &str, programs: &[&str], variables: &[(&str, &str)]) -> Output {
    run_in(&folder(name), programs, variables)
}

fn run_in(folder: &Path, programs: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut list = Vec::new();
    for (number, script) in programs.iter().enumerate() {
        let name = folder.file_name().unwrap().to_string_lossy();
        let package = folder.join(format!("{name}-package"));
        fs::create_dir_all(&package).unwrap();
        let program = write_program(&folder.join(format!("program-{number}")), script);
        list.push(format!("{}\t{}\n", package.display(), program.display()));
    }
    fs::write(folder.join("programs"), list.concat()).unwrap();
    let mut command = script_of("run-tests");
    command.arg(folder.join("programs")).arg(folder.join("logs"));
    command.env_remove("DISTLOCK_EXCUSES_ALLOWED").env_remove("PROGRAM_LIMIT");
    command.envs(variables.iter().copied()).output().unwrap()
}

fn script_of(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name))
}

fn write_program(path: &Path, script: &str) -> PathBuf {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_owned()
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scripts").join(name);
    // What an earlier run left, if there was one.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}
