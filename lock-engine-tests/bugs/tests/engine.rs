//! Bugs of the engine: switches in a copy of its source, one of which is turned on by an environment variable. The case that has to find a
//! bug is run in separate processes, with the switch off and on.

extern crate conformance_with_bugs as lock_conformance;

#[path = "../../../lock-conformance/tests/memory_harness/mod.rs"]
mod memory_harness;
#[path = "../switches.rs"]
#[allow(dead_code, reason = "the switches are of use to the build")]
mod switches;

use std::process::{Command, Output, Stdio};

use lock_conformance::{Mode, run};

use self::{
    memory_harness::MemoryHarness,
    switches::{BUGS, InEngine, VARIABLE},
};

/// Names the bug whose case is to be run in this process.
const CASE: &str = "DISTLOCK_BUG_CASE";

/// Called in the process of the test, and in the processes that it starts.
fn is_found(test: &str) {
    let (id, _) = test.split_once('_').expect("the name of the test begins with that of the bug");
    let bug = BUGS.iter().find(|bug| bug.id == id).expect("it is in the list");
    let (group, case) = bug.case;
    if std::env::var_os(CASE).is_some() {
        return run::<MemoryHarness>(group, case, Mode::Both);
    }
    let sound = run_case(test, bug, false);
    assert!(
        sound.status.success() && said(&sound).contains("1 passed"),
        "{group}::{case} fails without the bug, or is not there:\n{}",
        said(&sound)
    );
    let broken = run_case(test, bug, true);
    assert!(!broken.status.success(), "{group}::{case} does not find {id}");
    let found = said(&broken).contains("1 failed") && said(&broken).contains(bug.says);
    assert!(found, "{group}::{case} found something else than {id}:\n{}", said(&broken));
}

fn run_case(test: &str, bug: &InEngine, on: bool) -> Output {
    let mut process = Command::new(std::env::current_exe().expect("the test binary knows its path"));
    process.args([test, "--exact", "--test-threads=1"]).env(CASE, bug.id).stdin(Stdio::null());
    if on {
        process.env(VARIABLE, bug.id);
    }
    process.output().expect("the test binary can be started once more")
}

/// The output, indented, so that a summary does not take its list of failures for that of this program.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| format!("    {line}\n")).collect()
}

#[test]
fn b02_a_clock_that_does_not_count_sleep_is_found() {
    is_found("b02_a_clock_that_does_not_count_sleep_is_found");
}

#[test]
fn b06_a_grant_that_is_not_looked_at_again_is_found() {
    is_found("b06_a_grant_that_is_not_looked_at_again_is_found");
}

#[test]
fn b10_a_waiter_that_looks_only_when_told_to_is_found() {
    is_found("b10_a_waiter_that_looks_only_when_told_to_is_found");
}

#[test]
fn b16_a_dropped_future_that_leaves_its_entry_is_found() {
    is_found("b16_a_dropped_future_that_leaves_its_entry_is_found");
}

#[test]
fn b17_renewals_that_end_with_the_first_error_are_found() {
    is_found("b17_renewals_that_end_with_the_first_error_are_found");
}

#[test]
fn b18_renewals_that_go_on_after_a_release_are_found() {
    is_found("b18_renewals_that_go_on_after_a_release_are_found");
}

#[test]
fn b19_a_signal_that_is_given_only_once_is_found() {
    is_found("b19_a_signal_that_is_given_only_once_is_found");
}

#[test]
fn b26_a_drop_that_needs_a_runtime_is_found() {
    is_found("b26_a_drop_that_needs_a_runtime_is_found");
}

#[test]
fn b27_a_driver_that_sends_again_by_itself_is_found() {
    is_found("b27_a_driver_that_sends_again_by_itself_is_found");
}

#[test]
fn b30_a_fork_that_releases_the_locks_of_its_parent_is_found() {
    is_found("b30_a_fork_that_releases_the_locks_of_its_parent_is_found");
}

#[test]
fn b31_a_waker_that_ends_the_keeper_by_a_panic_is_found() {
    is_found("b31_a_waker_that_ends_the_keeper_by_a_panic_is_found");
}

#[test]
fn b32_a_waker_that_is_woken_while_the_registry_is_locked_is_found() {
    is_found("b32_a_waker_that_is_woken_while_the_registry_is_locked_is_found");
}

#[test]
fn b33_waiters_that_are_not_told_of_a_close_are_found() {
    is_found("b33_waiters_that_are_not_told_of_a_close_are_found");
}

#[test]
#[cfg(unix)]
fn b34_a_fork_that_has_the_keeper_of_its_parent_is_found() {
    is_found("b34_a_fork_that_has_the_keeper_of_its_parent_is_found");
}

#[test]
fn b35_a_client_that_tells_each_event_in_a_line_of_its_own_is_found() {
    is_found("b35_a_client_that_tells_each_event_in_a_line_of_its_own_is_found");
}

#[test]
fn b36_an_extension_that_waits_for_the_store_beyond_the_deadline_is_found() {
    is_found("b36_an_extension_that_waits_for_the_store_beyond_the_deadline_is_found");
}

#[test]
fn b37_a_cleanup_that_tells_of_every_try_is_found() {
    is_found("b37_a_cleanup_that_tells_of_every_try_is_found");
}

#[test]
fn b40_a_hint_that_is_given_while_the_listeners_are_locked_is_found() {
    is_found("b40_a_hint_that_is_given_while_the_listeners_are_locked_is_found");
}

/// A case of this group starts the test with its own path in a separate process.
mod resources {
    use lock_conformance::{Mode, run};

    use super::MemoryHarness;

    #[test]
    fn a_cleanup_that_fails_for_long_is_told_ever_more_rarely() {
        let case = "a_cleanup_that_fails_for_long_is_told_ever_more_rarely";
        run::<MemoryHarness>("resources", case, Mode::Both);
    }

    #[test]
    fn an_outage_costs_a_line_a_second_and_message() {
        run::<MemoryHarness>("resources", "an_outage_costs_a_line_a_second_and_message", Mode::Both);
    }

    #[test]
    #[cfg(unix)]
    fn a_fork_that_connects_again_has_locks_of_its_own() {
        run::<MemoryHarness>("resources", "a_fork_that_connects_again_has_locks_of_its_own", Mode::Both);
    }
}
