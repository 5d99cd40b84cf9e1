//! The table of the bug bank is correct: each listed bug is put in where the table says, with the listed case, and no bug is missing.

use std::{collections::BTreeSet, fs, path::Path};

use lock_conformance::{BUGS, Needs};

use crate::{simulated::SIMULATED, switches};

/// The bugs that the bank has to contain.
const IDS: &[&str] = &[
    "b01", "b02", "b03", "b04", "b05", "b06", "b07", "b08", "b09", "b10", "b11", "b14", "b16", "b17", "b18",
    "b19", "b20", "b22", "b25", "b26", "b27", "b30", "b31", "b32", "b33", "b34", "b35", "b36", "b37", "b38",
    "b39", "b40", "b41", "b42", "b43", "b44", "b45", "b46", "b47", "b48", "b49", "b50", "b51", "b52", "b53",
    "b54", "b55", "b56", "b57",
];

/// The store of the bug that only `lock-redis` has, which compares its row itself.
const ONE_STORE: &str = "Redis";

/// A row of the table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    id: String,
    /// What the bug is put into.
    place: String,
    /// The stores that its case runs on.
    stores: String,
    /// The case or the checker that finds it.
    finder: String,
}

impl Row {
    fn new(id: &str, place: &str, stores: &str, (group, case): (&str, &str)) -> Self {
        let finder = format!("{group}::{case}");
        Self { id: id.to_owned(), place: place.to_owned(), stores: stores.to_owned(), finder }
    }
}

fn rows() -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/bug-bank.md");
    let text = fs::read_to_string(path).expect("the document is there");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with("| b") && !line.starts_with("| bug")).map(cells);
    let row = |cells: Vec<String>| match &cells[..] {
        [_, id, _, place, stores, finder, _] => Row {
            id: id.clone(),
            place: place.clone(),
            stores: stores.clone(),
            finder: finder.replace('`', ""),
        },
        cells => panic!("a row of the table has five cells: {cells:?}"),
    };
    rows.map(row).collect()
}

fn listed(place: &str) -> BTreeSet<Row> {
    rows().into_iter().filter(|row| row.place == place && row.stores != ONE_STORE).collect()
}

#[test]
fn every_bug_is_listed_once() {
    let rows = rows();
    let listed: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(listed, IDS.iter().copied().collect());
    assert_eq!(rows.len(), IDS.len(), "a bug has two rows");
}

#[test]
fn every_row_says_where_the_bug_is_put_in() {
    for row in rows() {
        assert!(["layer", "engine", "simulation"].contains(&row.place.as_str()), "that is nowhere: {row:?}");
        assert!(row.stores != ONE_STORE || row.place == "layer", "Redis has no such bugs: {row:?}");
    }
}

#[test]
fn the_bugs_of_every_store_are_listed_with_their_cases() {
    let stores = |needs| match needs {
        Needs::Nothing => "every store",
        Needs::Hints => "every store with hints",
        Needs::MissedHints => "every store that can miss hints",
    };
    let planted = BUGS.iter().map(|bug| Row::new(bug.id, "layer", stores(bug.needs), bug.case));
    assert_eq!(listed("layer"), planted.collect());
}

#[test]
fn the_bugs_of_the_engine_are_listed_with_their_cases() {
    let switched = switches::BUGS.iter().map(|bug| Row::new(bug.id, "engine", "memory", bug.case));
    assert_eq!(listed("engine"), switched.collect());
}

#[test]
fn the_bugs_of_the_simulation_are_listed_with_their_checkers() {
    let simulated = SIMULATED.iter().map(|(id, _, checker)| Row {
        id: (*id).to_owned(),
        place: "simulation".to_owned(),
        stores: "simulated".to_owned(),
        finder: (*checker).to_owned(),
    });
    assert_eq!(listed("simulation"), simulated.collect());
}
