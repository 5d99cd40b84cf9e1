//! `docs/cases.md` says which store runs which case, and what shows each rule. It is made from the list of the cases, from what the tests
//! of each store declare, from `docs/protocol.md`, and from the comments of tests. No server is needed for it.

mod labels;
mod page;
mod sources;
mod stores;

use std::{env, fs, path::Path};

use lock_conformance::cases;

use self::{labels::read_labels, page::page, sources::Sources};

/// Set, it has the page written anew before it is compared.
const WRITE: &str = "DISTLOCK_WRITE_PAGES";

#[test]
fn the_page_of_the_cases_says_what_the_suite_and_the_stores_do() {
    let labels = read_labels(&read("docs/protocol.md"));
    assert!(labels.len() > 150, "the labels are read: {}", labels.len());
    let names = labels.iter().map(|label| label.name.as_str()).collect();
    let sources = Sources::read(root(), &names);
    let wanted = page(&labels, &sources);
    if env::var_os(WRITE).is_some() {
        fs::write(root().join("docs/cases.md"), &wanted).unwrap();
    }
    let found = read("docs/cases.md");
    let differs = found.lines().zip(wanted.lines()).position(|(found, wanted)| found != wanted);
    let line = differs.unwrap_or_else(|| found.lines().count().min(wanted.lines().count()));
    let of = |page: &str| page.lines().nth(line).unwrap_or_default().to_owned();
    assert!(
        found == wanted,
        "docs/cases.md is out of date; write it anew with\n\
         {WRITE}=1 cargo test -p lock-conformance --test cases_page\nline {} is\n{}\nand has to be\n{}",
        line + 1,
        of(&found),
        of(&wanted)
    );
}

#[test]
fn the_page_about_trust_says_how_many_cases_there_are() {
    let said = format!("| the suite | {} cases", cases::all().count());
    assert!(read("docs/trust.md").contains(&said), "docs/trust.md does not say `{said}`");
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}
