//! Every example runs, and prints what it promises.

use std::process::Command;

mod built;

#[test]
fn quickstart_shows_two_contenders_a_hand_off_tokens_and_a_lost_lock() {
    let said = run("quickstart");
    for expected in [
        "bert tries: busy",
        "queue: bert waits",
        "anna: Confirmed; bert has it",
        "is greater than anna's",
        "lost, because the store says that it is gone; held: false",
        "is refused: token",
        "bert releases: lock `invoices/42` was lost",
        "carl still holds it: true",
        "Everything is released",
    ] {
        assert!(said.contains(expected), "`{expected}` is missing in\n{said}");
    }
}

#[test]
fn a_scheduled_task_runs_once_and_not_again_for_a_machine_that_is_late() {
    let said = run_on_a_file("scheduled_task");
    assert_eq!(said.matches("I make the report").count(), 1, "{said}");
    assert_eq!(said.matches("somebody else").count() + said.matches("is there already").count(), 4, "{said}");
    assert!(said.contains("machine 5: the report is there already"), "{said}");
}

#[test]
fn one_sets_it_up_and_all_start() {
    let said = run_on_a_file("init_once");
    assert_eq!(said.matches("I set it up").count(), 1, "{said}");
    assert!(said.contains("set up 1 time, and all have started"), "{said}");
}

#[test]
fn processes_that_count_together_lose_no_count() {
    let said = run_on_a_file("shared_counter");
    assert!(said.contains("with the lock: 200 of 200 counted"), "{said}");
}

#[test]
fn no_id_is_drawn_twice() {
    assert!(run_on_a_file("unique_ids").contains("1000 different ids"));
}

#[test]
fn a_cache_is_filled_by_one() {
    assert!(
        run_on_a_file("cache_fill").contains("20 requests for 2 pages, and the source was asked 2 times")
    );
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
    let said = run_on_a_file("fenced_write");
    for expected in ["read by nobody; balance: 50", "refused, the token is old; balance: 50"] {
        assert!(said.contains(expected), "`{expected}` is missing in\n{said}");
    }
}

#[test]
fn a_writer_is_not_passed_by_a_late_reader() {
    assert!(run("read_write").contains("writer: my turn"));
}

#[test]
fn a_semaphore_keeps_all_together_within_the_limit() {
    assert!(run_on_a_file("semaphore").contains("the limit is 4"));
}

#[test]
fn an_operator_sees_the_queue_and_takes_a_lock_away() {
    let said = run("who_holds_it");
    for expected in
        ["held by this process: `ci-17, stuck`", "deploy/us held by", "evict: Left", "the next one has it"]
    {
        assert!(said.contains(expected), "`{expected}` is missing in\n{said}");
    }
}

#[test]
fn the_store_and_the_options_come_from_a_file() {
    let said = run("settings");
    assert!(said.contains("Settings { url: \"***\", options: AcquireOptions { ttl: 10s,"), "{said}");
    assert!(said.contains("a mistake is told as: `ttl` cannot be 1ms"), "{said}");
    assert!(said.contains("one of 8: ttl 10s"), "{said}");
}

#[test]
fn a_process_that_ends_without_a_close_leaves_no_lock() {
    let folder = tempfile::tempdir().expect("a folder for the file can be made");
    built::assert_that_ends_leave_no_lock(&format!("sqlite:{}", folder.path().join("locks.db").display()));
}

/// The output of an example on a new SQLite file: tests do not use the file of the user.
fn run_on_a_file(example: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder for the file can be made");
    run_with(example, &[&format!("sqlite:{}", folder.path().join("locks.db").display())])
}

fn run(example: &str) -> String {
    run_with(example, &[])
}

/// The output of an example. Cargo builds the examples together with the tests.
fn run_with(example: &str, args: &[&str]) -> String {
    let output =
        Command::new(built::example(example)).args(args).output().expect("the example can be started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{example}: {}\n{said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    said
}
