//! Every example runs, and says what it promises.

use std::process::Command;

mod built;

#[test]
fn quickstart_shows_two_contenders_a_hand_off_tokens_and_a_lost_lock() {
    let said = run("quickstart");
    for expected in [
        "bert tries: busy",
        "queue: bert waits",
        "anna: Released; bert has it",
        "is greater than hers",
        "lost, because the store says that it is gone; held: false",
        "is refused: token",
        "bert releases: AlreadyLost, and carl still holds it: true",
        "Everything is released",
    ] {
        assert!(said.contains(expected), "`{expected}` is missing in\n{said}");
    }
}

#[test]
fn one_machine_makes_the_report_and_three_skip_it() {
    let said = run("skip_if_busy");
    assert_eq!(said.matches("I make the report").count(), 1, "{said}");
    assert_eq!(said.matches("somebody else").count(), 3, "{said}");
}

#[test]
fn work_stops_when_its_lock_is_lost() {
    let said = run("stop_when_lost");
    for expected in
        ["run: the work was done", "run: lock `import` was lost", "select: the work stops", "loop:"]
    {
        assert!(said.contains(expected), "`{expected}` is missing in\n{said}");
    }
}

#[test]
fn a_paused_holder_is_refused_by_what_it_writes_to() {
    let said = run("fenced_write");
    assert!(said.contains("token 1: refused") && said.contains("balance: 50"), "{said}");
}

#[test]
fn a_writer_is_not_passed_by_a_late_reader() {
    assert!(run("read_write").contains("writer: my turn"));
}

#[test]
fn a_semaphore_keeps_all_together_within_the_limit() {
    assert!(run("semaphore").contains("the limit is 4"));
}

#[test]
fn an_operator_sees_the_queue_and_takes_a_lock_away() {
    let said = run("who_holds_it");
    for expected in ["held by `ci-17, stuck`", "deploy/us held by", "evict: Left", "the next one has it"] {
        assert!(said.contains(expected), "`{expected}` is missing in\n{said}");
    }
}

#[test]
fn options_come_from_a_file() {
    let said = run("settings");
    assert!(said.contains("a mistake is told as: `ttl` cannot be 1ms"), "{said}");
    assert!(said.contains("one of 8: ttl 10s"), "{said}");
}

/// What an example says. Cargo builds the examples together with the tests.
fn run(example: &str) -> String {
    let output = Command::new(built::example(example)).output().expect("the example can be started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{example}: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}
