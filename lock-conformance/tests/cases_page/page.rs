//! The page, from what is known.

use lock_conformance::{Case, cases};

use crate::{
    labels::Label,
    sources::{Sources, Tests, words},
    stores::{STORES, Store},
};

const HEAD: &str = "# Which store runs which case, and what shows each rule

Made from the list of the suite's cases, from what the tests of each store declare, from [the rules](protocol.md), and from what the tests
say that they show. `lock-conformance/tests/cases_page` compares this page with all that, and writes it again with this command:

```sh
DISTLOCK_WRITE_PAGES=1 cargo test -p lock-conformance --test cases_page
```

[How each promise is tested](trust.md) has the other ways in which it is; [ADR 7](adr/0007-cases-that-a-store-cannot-run.md), what a store may
declare. The cases of the core run on each store twice more: once without hints, and once without polling.";

const CASES: &str = "## Cases

The name of a case is what it promises. ✓: the store runs it. A number: it does not, and [why](#why-not). What the labels are about stands
[below](#rules-and-labels).";

const BY_URL: &str = "## On a server that is only known by its URL

`DISTLOCK_TEST_REDIS_URL` and its like name servers that the tests did not start. These labels are declared there, too.";

const LABELS: &str = "## Rules and labels

In the order of [protocol.md](protocol.md), which says why each rule is there. The tests are those that it names, and those that cite the label.";

/// The whole page.
pub(crate) fn page(labels: &[Label], sources: &Sources) -> String {
    let mut reasons = Vec::new();
    let cases: Vec<_> = cases::all().map(|case| case_row(case, sources, &mut reasons)).collect();
    let header: Vec<&str> =
        ["labels", "case", "more"].into_iter().chain(STORES.iter().map(|store| store.name)).collect();
    let reasons = reasons.iter().enumerate().map(|(i, reason)| vec![(i + 1).to_string(), cell(reason)]);
    let parts = [
        HEAD.to_owned(),
        table(&["store", "is", "runs", "does not run"], STORES.iter().map(store_row)),
        CASES.to_owned(),
        table(&header, cases),
        "## Why not".to_owned(),
        table(&["", "because"], reasons),
        BY_URL.to_owned(),
        table(&["store", "labels", "because"], STORES.iter().filter_map(url_row)),
        LABELS.to_owned(),
        table(
            &["label", "about", "cases", "other tests"],
            labels.iter().map(|label| label_row(label, sources)),
        ),
    ];
    parts.join("\n\n") + "\n"
}

fn store_row(store: &Store) -> Vec<String> {
    let all = cases::all().count();
    let run = cases::all().filter(|case| store.not_run(case).is_none()).count();
    vec![store.name.to_owned(), store.about.to_owned(), run.to_string(), (all - run).to_string()]
}

fn case_row(case: &Case, sources: &Sources, reasons: &mut Vec<&'static str>) -> Vec<String> {
    let mut cells = vec![case.ids.join(", "), shown(case), cell(sources.comment(case.name))];
    for store in &STORES {
        let reason = store.not_run(case).map(|declared| number(reasons, declared.reason));
        cells.push(reason.map_or_else(|| "✓".to_owned(), |number| format!("[{number}](#why-not)")));
    }
    cells
}

/// What is declared for one more reason: that the server is not the test's own.
fn url_row(store: &Store) -> Option<Vec<String>> {
    let declared = store.only_by_url();
    let first = declared.first()?;
    let labels: Vec<&str> = declared.iter().map(|declared| declared.id).collect();
    assert!(declared.iter().all(|declared| declared.reason == first.reason), "{}: one reason", store.name);
    Some(vec![store.name.to_owned(), labels.join(", "), cell(first.reason)])
}

fn label_row(label: &Label, sources: &Sources) -> Vec<String> {
    let (name, tested_by) = (label.name.as_str(), &label.tested_by);
    let is_shown_by = |case: &&Case| {
        let cites = words(sources.comment(case.name)).any(|word| word == name);
        cites || case.ids.contains(&name) || tested_by.iter().any(|test| test == case.name)
    };
    let shown_by: Vec<String> = cases::all().filter(is_shown_by).map(shown).collect();
    let mut tests = sources.citing(name);
    for test in tested_by.iter().filter(|test| cases::all().all(|case| case.name != **test)) {
        for folder in sources.folders_of(test) {
            tests.entry(folder).or_default().insert(test.clone());
        }
    }
    vec![label.name.clone(), cell(&label.about), shown_by.join(", "), list(&tests)]
}

/// The number of a reason, which is a new one if nobody has given it yet.
fn number(reasons: &mut Vec<&'static str>, reason: &'static str) -> usize {
    let known = reasons.iter().position(|known| *known == reason);
    known.map_or_else(
        || {
            reasons.push(reason);
            reasons.len()
        },
        |at| at + 1,
    )
}

fn shown(case: &Case) -> String {
    format!("`{}::{}`", case.group, case.name)
}

fn list(tests: &Tests) -> String {
    let mut crates = Vec::new();
    for (folder, names) in tests {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        crates.push(format!("{folder}: {}", names.join(", ")));
    }
    crates.join("; ")
}

/// A text in a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let header: Vec<String> = header.iter().map(ToString::to_string).collect();
    let rule = format!("|{}", "---|".repeat(header.len()));
    let mut lines = vec![row(&header), rule];
    lines.extend(rows.into_iter().map(|cells| row(&cells)));
    lines.join("\n")
}

fn row(cells: &[String]) -> String {
    let mut row = "|".to_owned();
    for cell in cells {
        if !cell.is_empty() {
            row += " ";
            row += cell;
        }
        row += " |";
    }
    row
}
