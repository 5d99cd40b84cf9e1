//! The table of the bug bank is correct: each listed bug is put in somewhere, with the listed case, and no bug is missing.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{SIMULATED, store, switches};

/// The bugs that the bank has to contain.
const IDS: &[&str] = &[
    "b01", "b02", "b03", "b04", "b05", "b06", "b07", "b08", "b09", "b10", "b11", "b14", "b16", "b17", "b18",
    "b19", "b20", "b22", "b25", "b26", "b27", "b30", "b31", "b32", "b33", "b34", "b35", "b36", "b37", "b38",
    "b39", "b40",
];

/// Rows of the table: which bug, where it is put in, and what finds it.
fn rows() -> Vec<(String, String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/bug-bank.md");
    let text = fs::read_to_string(path).expect("the document is there");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with("| b") && !line.starts_with("| bug")).map(cells);
    let row = |cells: Vec<String>| match &cells[..] {
        [_, id, _, place, finder, _] => (id.clone(), place.clone(), finder.replace('`', "")),
        cells => panic!("a row of the table has four cells: {cells:?}"),
    };
    rows.map(row).collect()
}

fn listed(place: &str) -> BTreeSet<(String, String)> {
    rows().into_iter().filter(|row| row.1 == place).map(|(id, _, finder)| (id, finder)).collect()
}

fn cases<'a>(bugs: impl Iterator<Item = (&'a str, (&'a str, &'a str))>) -> BTreeSet<(String, String)> {
    bugs.map(|(id, (group, case))| (id.to_owned(), format!("{group}::{case}"))).collect()
}

#[test]
fn every_bug_is_listed() {
    let listed: BTreeSet<String> = rows().into_iter().map(|row| row.0).collect();
    let all: BTreeSet<String> = IDS.iter().map(ToString::to_string).collect();
    assert_eq!(listed, all);
}

#[test]
fn every_row_says_where_the_bug_is_put_in() {
    for (id, place, _) in rows() {
        let known = ["memory", "engine", "simulation", "Redis"].contains(&place.as_str());
        assert!(known, "{id} is put into {place}, which is nowhere");
    }
}

#[test]
fn the_bugs_of_memory_are_listed_with_their_cases() {
    assert_eq!(listed("memory"), cases(store::BUGS.iter().map(|bug| (bug.id, bug.case))));
}

#[test]
fn the_bugs_of_the_engine_are_listed_with_their_cases() {
    assert_eq!(listed("engine"), cases(switches::BUGS.iter().map(|bug| (bug.id, bug.case))));
}

#[test]
fn the_bugs_of_the_simulation_are_listed_with_their_checkers() {
    let simulated = SIMULATED.iter().map(|(id, _, checker)| ((*id).to_owned(), (*checker).to_owned()));
    assert_eq!(listed("simulation"), simulated.collect());
}
