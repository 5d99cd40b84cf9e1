//! The scripts that run tests fail when they have to: shown with programs that only pretend to be tests.

mod checkout;
mod mutants;
mod semver;

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::Path,
    process::{Command, Output},
};

use lock_conformance::ran_nothing;

use self::checkout::{Checkout, folder, green, red, root, script_of, write_program};

const GOOD: &str = "echo 'test a::b ... ok <0.010s>'\necho 'test result: ok. 1 passed; 0 failed; 0 ignored'";

#[test]
fn a_run_whose_tests_pass_is_green_and_says_how_many() {
    let said = green(&run_tests("green", &[GOOD], &[]));
    // Once in each phase: this program ignores its arguments.
    assert!(said.contains("\n3 passed, 0 failed, 0 skipped\n"), "{said}");
    assert!(said.contains("green-package-program-0::a::b"), "the slowest are named: {said}");
}

#[test]
fn a_test_that_fails_is_red_and_its_message_is_shown() {
    let program = "echo 'test a::b ... FAILED <0.010s>'\nprintf '\\nfailures:\\n\\nit was granted twice\\n'\n\
        printf '\\nfailures:\\n    a::b\\n\\n'\necho 'test result: FAILED. 0 passed; 1 failed; 0 ignored'\nexit 101";
    let said = red(&run_tests("failing", &[program, GOOD], &[]));
    assert!(said.contains("it was granted twice"), "{said}");
    assert!(said.contains("\n3 passed, 3 failed, 0 skipped\n"), "{said}");
}

#[test]
fn a_failure_with_a_long_message_hides_neither_the_others_nor_the_sum() {
    let program = "echo 'test a::b ... FAILED <0.010s>'\nprintf '\\nfailures:\\n\\n---- a::b stdout ----\\n'\n\
        seq 100000\necho '---- a::c stdout ----'\necho 'it was granted twice'\n\
        printf '\\nfailures:\\n    a::b\\n    a::c\\n\\n'\necho 'test result: FAILED. 0 passed; 2 failed; 0 ignored'\nexit 101";
    let said = red(&run_tests("talkative", &[program, GOOD], &[]));
    assert!(said.contains("the rest is in the log") && said.contains("it was granted twice"), "{said}");
    assert!(said.contains("\n3 passed, 6 failed, 0 skipped\n"), "{said}");
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
    // Each run of the program prints the reason.
    let program = format!("{GOOD}\necho 'ran nothing: memory::a::b: there is no server' >&2");
    let said = green(&run_tests("idle", &[&program, GOOD], &[]));
    assert!(said.contains("\n5 passed, 0 failed, 0 skipped\n"), "{said}");
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
fn what_counts_resources_runs_after_everything_else_and_crowds_last() {
    let program = format!("echo \"$(basename $0) $*\" >>../order\n{GOOD}");
    let folder = folder("order");
    green(&run_in(&folder, &[&program, &program], &[]));
    let order = fs::read_to_string(folder.join("order")).unwrap();
    let lines: Vec<_> = order.lines().collect();
    assert_eq!(lines.len(), 6, "{order}");
    let phases = [
        "--skip resources:: --skip alone::",
        "--test-threads=1 resources:: --skip alone::",
        "--test-threads=1 alone::",
    ];
    for (lines, phase) in lines.chunks(2).zip(phases) {
        assert!(lines.iter().all(|line| line.ends_with(phase)), "{order}");
    }
}

/// The kernel shares the cores among sessions only in the root group.
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
        return ran_nothing(test, "cores are not shared among sessions, or no control group can be made");
    }
    fs::remove_dir(probe).unwrap();
    assert!(!groups.is_empty() && groups.lines().all(|group| !group.ends_with(":/")), "{groups}");
}

#[test]
fn a_process_that_is_left_behind_says_nothing_about_the_tests() {
    // It stays in the control group, if there is one, which then cannot be removed.
    let program = format!("sleep 20 >/dev/null 2>&1 </dev/null &\n{GOOD}");
    green(&run_in(&folder("left"), &[&program], &[("CORES_ARE_SHARED", "")]));
}

/// The output of cargo on standard error, and of a test program on standard output.
fn program(name: &str, tests: &str, result: &str) -> String {
    format!(
        "echo '     Running tests/{name} (target/x)' >&2\nprintf 'running 2 tests\\n{tests}\\n'\n\
        [ -z '{result}' ] || echo 'test result: {result}'\n"
    )
}

/// Runs a script that pretends to be a suite, with these known failures.
fn conformance(name: &str, suite: &str, known: &str) -> Output {
    let folder = folder(name);
    let program = write_program(&folder.join("suite"), suite);
    fs::write(folder.join("known"), known).unwrap();
    let mut command = script_of("conformance");
    command.arg("--known").arg(folder.join("known")).arg("fake:1").arg(folder.join("row")).arg(program);
    command.output().unwrap()
}

#[test]
fn a_suite_whose_command_fails_although_no_test_does_is_red() {
    let suite = program("conformance.rs", "test a::b ... ok", "ok. 1 passed");
    green(&conformance("suite", &suite, ""));
    let said = red(&conformance("bad-suite", &format!("{suite}exit 101"), ""));
    assert!(said.contains("ended with 101"), "{said}");
}

#[test]
fn a_program_without_a_result_is_red_beside_a_failure_that_is_known() {
    let known = "store::old an old fault\n";
    let failing = program("store.rs", "test old ... FAILED", "FAILED. 0 passed; 1 failed");
    let whole = program("conformance.rs", "test a::b ... ok", "ok. 1 passed");
    let said = green(&conformance("known", &format!("{whole}{failing}exit 101"), known));
    assert!(said.contains("known to fail, and failed: store::old"), "{said}");
    // Like a program that calls `exit(1)` in the middle of its tests.
    let cut_short = program("conformance.rs", "test a::b ... ok", "");
    for (name, suite) in [("first", [&cut_short, &failing]), ("last", [&failing, &cut_short])] {
        let said = red(&conformance(name, &format!("{}exit 101", suite.map(String::as_str).concat()), known));
        assert!(said.contains("of conformance store") || said.contains("of store conformance"), "{said}");
    }
}

#[test]
fn what_is_said_on_standard_error_breaks_no_line_of_a_test() {
    let suite = "echo ' Running tests/a.rs (x)' >&2; echo 'running 1 test'; printf 'test a::b ... '; echo noise >&2\n\
        echo FAILED; echo 'test result: FAILED. 0 passed; 1 failed'; exit 101";
    let said = red(&conformance("noise", suite, ""));
    assert!(said.contains("> a::a::b"), "{said}");
}

#[test]
fn a_speed_that_is_missed_makes_the_night_red() {
    let checkout = Checkout::new("speed", &["nightly"]);
    green(&checkout.run("nightly", &["speed"], &[]));
    // Like lock-bench when a bound is missed.
    checkout.pretends("bin/cargo", "case \"$*\" in *--check*) exit 1 ;; esac");
    red(&checkout.run("nightly", &["speed"], &[]));
}

#[test]
fn a_run_of_chaos_is_a_row_and_is_repeated_only_if_something_was_found() {
    let checkout = Checkout::new("chaos", &["chaos"]);
    checkout.pretends("bin/git", "[ \"$1\" != log ] || echo 0123456789");
    fs::create_dir_all(checkout.0.join("target/release")).unwrap();
    let rig = |result: &str, code: u8| {
        let row = format!("echo '9 | 1 | kill 3 | {result}' >\"$2/row\"");
        let script =
            format!("while [ \"$1\" != --folder ]; do shift; done; mkdir -p \"$2\"\n{row}\nexit {code}");
        checkout.pretends("target/release/lock-chaos", &script);
    };
    let table = checkout.0.join("table");
    let variables = [("CHAOS_TABLE", table.to_str().unwrap())];
    let rows = || fs::read_to_string(&table).unwrap().lines().filter(|line| line.contains(" redis ")).count();
    let run = |store: &str| checkout.run("chaos", &[store, "30"], &variables);
    rig("", 2);
    red(&run("sqlite"));
    rig("**1 finding**", 1);
    red(&run("redis"));
    rig("no finding", 0);
    green(&run("redis"));
    let said = green(&run("redis"));
    assert!(said.contains("has this run already"), "{said}");
    let calls = checkout.calls();
    assert_eq!(calls.matches("lock-chaos run --store redis --minutes 30").count(), 2, "{calls}");
    assert_eq!(rows(), 2);
    assert!(!fs::read_to_string(&table).unwrap().contains("sqlite"), "what could not be found out is no row");
    green(&checkout.run("chaos", &["--seed", "7", "redis", "30"], &variables));
    assert_eq!(rows(), 3);
}

#[test]
fn the_night_runs_what_is_ignored_also_after_a_failure_and_by_itself() {
    let checkout = Checkout::new("volume", &["nightly"]);
    checkout.pretends("scripts/build-tests", "printf 'p\\t/x/store-0a\\np\\t/x/paused_leader-0b\\n' >\"$1\"");
    let fails = "echo \"programs ${PROGRAMS_AT_ONCE-} crowds ${CROWDS_AT_ONCE-} tests ${RUST_TEST_THREADS-}\" >>\"$CALLS\"\n\
        [ \"$1\" != --ignored ] || cat \"$2\" >>\"$CALLS\"; [ \"$1\" = --ignored ]";
    checkout.pretends("scripts/run-tests", fails);
    red(&checkout.run("nightly", &["volume"], &[]));
    let calls = checkout.calls();
    assert_eq!(calls.matches("run-tests ").count(), 2, "{calls}");
    let (_, ignored) = calls.split_once("run-tests --ignored").expect("what is ignored runs");
    assert!(ignored.contains("programs 1 crowds 1 tests 1") && ignored.contains("/x/store-0a"), "{calls}");
    assert!(!ignored.contains("paused_leader-0b"), "that has a part of its own: {calls}");
    green(&checkout.run("nightly", &["model"], &[]));
    assert!(checkout.calls().contains("--test model -- --test-threads=1"), "{}", checkout.calls());
}

#[test]
fn without_an_old_etcd_the_gate_says_so_and_the_night_is_red() {
    let checkout = Checkout::new("old-etcd", &["nightly", "test"]);
    checkout.pretends("scripts/etcd/setup", "echo /new/etcd");
    let said = green(&checkout.run("test", &[], &[]));
    assert!(said.contains("not checked here: an old etcd"), "{said}");
    let said = red(&checkout.run("nightly", &["old-etcd"], &[]));
    assert!(said.contains("there is no old etcd"), "{said}");
    assert!(!checkout.calls().contains("etcd/test"), "{}", checkout.calls());

    checkout.pretends("scripts/etcd/setup", "echo /new/etcd; echo /old/etcd");
    let said = green(&checkout.run("test", &[], &[]));
    assert!(!said.contains("not checked here: an old etcd"), "{said}");
    green(&checkout.run("nightly", &["old-etcd"], &[]));
    let calls = checkout.calls();
    assert!(
        calls.contains("etcd/test /old/etcd --known-only\n") && calls.contains("etcd/test /old/etcd\n"),
        "{calls}"
    );
}

#[test]
fn the_quick_gate_runs_the_unit_tests_of_programs_too() {
    let checkout = Checkout::new("quick", &["test"]);
    green(&checkout.run("test", &["--quick"], &[]));
    let calls = checkout.calls();
    assert!(calls.contains("--lib --bins --test memory"), "{calls}");
}

#[test]
fn dependencies_that_are_not_checked_are_red_in_a_workflow_alone() {
    let checkout = Checkout::new("deny", &["deny"]);
    let said = green(&checkout.run("deny", &[], &[]));
    assert!(said.contains("not checked: dependencies"), "{said}");
    red(&checkout.run("deny", &[], &[("GITHUB_ACTIONS", "true")]));
    checkout.pretends("bin/cargo-deny", "");
    green(&checkout.run("deny", &[], &[("GITHUB_ACTIONS", "true")]));
    checkout.pretends("bin/cargo", "case \"$*\" in *fetch*) exit 1 ;; esac");
    let said = green(&checkout.run("deny", &[], &[]));
    assert!(said.contains("not checked: advisories"), "{said}");
    red(&checkout.run("deny", &[], &[("GITHUB_ACTIONS", "true")]));
}

/// The situation in a container, where everything runs as root.
#[test]
fn workflows_in_a_container_let_git_read_the_checkout_of_another_user() {
    const TEST: &str = "workflows_in_a_container_let_git_read_the_checkout_of_another_user";
    if fs::metadata("/proc/self").is_ok_and(|process| process.uid() != 0) {
        return ran_nothing(TEST, "it takes other users");
    }
    let checkout = folder("dubious");
    let git = |variables: &[(&str, &str)]| {
        let mut git = Command::new("git");
        git.args(["ls-files"]).current_dir(&checkout).env("HOME", &checkout).env("GIT_CONFIG_NOSYSTEM", "1");
        git.env_remove("SUDO_UID")
            .env_remove("GIT_CONFIG_COUNT")
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    };
    assert!(Command::new("git").args(["init", "--quiet"]).current_dir(&checkout).status().unwrap().success());
    for path in [checkout.clone(), checkout.join(".git")] {
        chown(path, Some(65534), Some(65534)).unwrap();
    }
    assert!(red(&git(&[])).contains("dubious ownership"));
    for workflow in ["ci.yml", "nightly.yml"] {
        let text = fs::read_to_string(root().join(".github/workflows").join(workflow)).unwrap();
        let (_, job) = text.split_once("\n    container:\n").expect("it has a job in a container");
        let variables = job.lines().filter_map(|line| line.trim().split_once(": "));
        let variables = variables.filter(|(name, _)| name.starts_with("GIT_CONFIG_"));
        let variables: Vec<_> = variables.map(|(name, value)| (name, value.trim_matches('"'))).collect();
        green(&git(&variables));
    }
}

#[test]
fn a_release_is_made_only_of_the_version_that_its_tag_names() {
    let checkout = Checkout::new("release", &["release"]);
    let manifest =
        "[workspace.package]\nversion = \"1.2.3\"\n[workspace.dependencies]\nversion = \"9.9.9\"\n";
    fs::write(checkout.0.join("Cargo.toml"), manifest).unwrap();
    fs::write(checkout.0.join("CHANGELOG.md"), "## Unreleased\n").unwrap();
    let tag = |name| checkout.run("release", &[], &[("GITHUB_REF_TYPE", "tag"), ("GITHUB_REF_NAME", name)]);
    assert!(red(&tag("v1.2.3")).contains("CHANGELOG.md has nothing of 1.2.3"));
    fs::write(checkout.0.join("CHANGELOG.md"), "## Unreleased\n\n## 1.2.3 - 2026-12-01\n").unwrap();
    assert!(red(&tag("v1.2.4")).contains("the tag is v1.2.4, and the version in Cargo.toml is 1.2.3"));
    assert!(!checkout.calls().contains("cargo package"), "{}", checkout.calls());
    green(&tag("v1.2.3"));
    let calls = checkout.calls();
    assert!(calls.contains("cargo package --locked") && calls.contains("--package lock-core"), "{calls}");
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
