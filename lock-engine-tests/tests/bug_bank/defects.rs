//! The table of our own defects is correct: each row names tests that exist and that the gate runs, or says why there is none.

use std::{fs, path::Path};

use lock_conformance::cases;

const DOCUMENT: &str = include_str!("../../../docs/bug-bank.md");

/// The heading of the section with the table.
const SECTION: &str = "## Defects of our own";

/// Where a defect can have been.
const PLACES: &[&str] = &[
    "lock-core",
    "distlock",
    "lock-redis",
    "lock-etcd",
    "lock-zk",
    "lock-sqlite",
    "lock-cli",
    "PostgreSQL example",
];

/// The beginning of a cell that says why there is no test.
const UNTESTED: &str = "no test: ";

/// A row of the table.
struct Row {
    place: &'static str,
    what: &'static str,
    found_by: &'static str,
}

fn rows() -> Vec<Row> {
    let (_, section) = DOCUMENT.split_once(SECTION).expect("the section is there");
    let section = section.split("\n## ").next().unwrap_or(section);
    let cells = |line: &'static str| line.strip_prefix("| ")?.strip_suffix(" |").map(|row| row.split(" | "));
    let row = |cells: Vec<&'static str>| match cells[..] {
        [place, what, found_by] => Row { place, what, found_by },
        _ => panic!("a row of the table has three cells: {cells:?}"),
    };
    // The first row has the names of the columns.
    section.lines().filter_map(cells).map(|cells| row(cells.collect())).skip(1).collect()
}

#[test]
fn every_row_says_where_the_defect_was_and_what_was_wrong() {
    let rows = rows();
    assert!(rows.len() > 200, "the table has only {} rows", rows.len());
    for Row { place, what, .. } in rows {
        assert!(PLACES.contains(&place), "{place} is not a part of the library: {what}");
        assert!(what.ends_with('.'), "what was wrong is a sentence: {what}");
    }
}

#[test]
fn every_defect_has_tests_that_the_gate_runs_or_says_why_not() {
    for Row { what, found_by, .. } in rows() {
        if found_by.starts_with(UNTESTED) {
            continue;
        }
        let names: Vec<_> = found_by.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test is named: {what}");
        for name in names {
            if let Err(missing) = find(name) {
                panic!("{what} It is found by `{name}`, but {missing}");
            }
        }
    }
}

#[test]
fn a_test_that_is_missing_or_ignored_is_noticed() {
    for name in [
        "lock-core/src/token.rs::a_test_that_is_not_there",
        "lock-core/src/no_such_file.rs::a_token_is_read_back_as_it_was_written",
        "lock-engine-tests/tests/bug_bank/defects.rs::rows",
        "lock-etcd/tests/crowds.rs::a_connection_that_dies_in_silence_is_noticed_in_two_seconds",
        "exclusion::a_case_that_is_not_there",
        "renewal::two_tasks_of_one_client_are_never_inside_together",
        "a_name_without_a_place",
    ] {
        assert!(find(name).is_err(), "{name}");
    }
}

/// Looks for `file::test`, or for a case of the suite: `group::case`.
fn find(name: &str) -> Result<(), String> {
    let (place, test) = name.rsplit_once("::").ok_or("it has neither a file nor a group")?;
    if Path::new(place).extension().is_some_and(|extension| extension == "rs") {
        return find_test(place, test);
    }
    let is_there = cases::all().any(|case| case.group == place && case.name == test);
    is_there.then_some(()).ok_or_else(|| "the suite has no such case".to_owned())
}

fn find_test(file: &str, test: &str) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let source = fs::read_to_string(path).map_err(|error| format!("{file} cannot be read: {error}"))?;
    let lines: Vec<_> = source.lines().map(str::trim_start).collect();
    let definition = format!("fn {test}(");
    let at = lines.iter().position(|line| line.contains(&definition)).ok_or("there is no such function")?;
    // The attributes stand between the function and what is before it. Comments may be among them.
    let before = lines[..at].iter().rev();
    let attributes: Vec<_> =
        before.take_while(|line| !line.is_empty() && !line.ends_with(['{', '}', ';'])).collect();
    let is_test = |line: &str| line == "#[test]" || line.starts_with("#[tokio::test");
    if !attributes.iter().any(|line| is_test(line)) {
        return Err("the function is not a test".to_owned());
    }
    if attributes.iter().any(|line| line.starts_with("#[ignore")) {
        return Err("the gate does not run it".to_owned());
    }
    Ok(())
}
