//! The labels of rules, facts and cases: each one that is cited is defined in the documents, and each one that is defined is cited.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

/// Where labels are defined.
const DOCUMENTS: [&str; 2] = ["docs/protocol.md", "docs/facts.md"];

/// The table of all rules and cases, which is made from them and cites every label.
const TABLE: &str = "docs/cases.md";

/// The forms of labels: the prefix, how many digits follow, and which letters may follow those.
const FORMS: &[(&str, RangeInclusive<usize>, &str)] = &[
    ("PR", 2..=2, ""),
    ("C", 1..=2, ""),
    ("E", 1..=2, "abcd"),
    ("F", 1..=2, ""),
    ("G", 2..=2, ""),
    ("H", 2..=3, ""),
    ("I", 2..=2, ""),
    ("K", 2..=2, ""),
    ("L", 2..=2, ""),
    ("M", 1..=1, "br"),
    ("N", 2..=2, ""),
    ("P", 2..=2, ""),
    ("Q", 2..=2, ""),
    ("R", 1..=2, ""),
    ("S", 2..=2, ""),
    ("T", 2..=2, ""),
    ("W", 2..=2, ""),
    ("X", 2..=2, ""),
    ("Z", 1..=1, "b"),
];

#[test]
fn every_label_that_is_cited_is_defined() {
    let defined: BTreeSet<String> = definitions().into_iter().collect();
    for (label, files) in citations(|_| true) {
        assert!(defined.contains(&label), "{label} is defined nowhere, but cited in {files:?}");
    }
}

#[test]
fn every_label_that_is_defined_is_cited() {
    let uncounted = [DOCUMENTS[0], DOCUMENTS[1], TABLE];
    let cited = citations(|path| uncounted.iter().all(|document| !path.ends_with(document)));
    assert!(cited.len() > 150, "the sources are read: {cited:?}");
    for label in definitions() {
        assert!(cited.contains_key(&label), "{label} is defined, but nothing cites it");
    }
}

/// A rule that only documents speak of may be kept by nobody.
#[test]
fn every_rule_is_cited_by_sources() {
    let cited = citations(|path| !has_extension(path, "md"));
    let document = read(&root().join(DOCUMENTS[0]));
    let headings = document.lines().filter_map(|line| line.strip_prefix("### "));
    let rules: Vec<&str> =
        headings.filter_map(|heading| heading.split_once(": ")).map(|(label, _)| label).collect();
    assert!(rules.len() > 40, "the rules are read: {rules:?}");
    for label in rules {
        assert!(cited.contains_key(label), "{label} is a rule, but no source cites it");
    }
}

#[test]
fn no_label_is_defined_twice() {
    let mut seen = BTreeSet::new();
    for label in definitions() {
        assert!(seen.insert(label.clone()), "{label} has two definitions");
    }
}

#[test]
fn every_rule_says_what_goes_wrong_without_it_and_names_tests_that_exist() {
    let sources: Vec<String> =
        files().iter().filter(|path| has_extension(path, "rs")).map(|path| read(path)).collect();
    let document = read(&root().join(DOCUMENTS[0]));
    let rules: Vec<&str> = document.split("\n### ").skip(1).collect();
    assert!(rules.len() > 40, "the rules are read: {}", rules.len());
    for rule in rules {
        let title = rule.lines().next().unwrap_or_default();
        let paragraphs: Vec<&str> = rule.split("\n\n").collect();
        assert!(paragraphs.iter().any(|text| text.starts_with("*Without it:*")), "{title}: what goes wrong?");
        let tested = paragraphs.iter().find(|text| text.starts_with("*Tested by*"));
        let tested = tested.unwrap_or_else(|| panic!("{title}: no test is named"));
        let names: Vec<&str> =
            tested.split('`').skip(1).step_by(2).filter(|name| !name.contains('/')).collect();
        assert!(!names.is_empty(), "{title}: no test is named");
        for name in names {
            let function = format!("fn {name}(");
            assert!(
                sources.iter().any(|source| source.contains(&function)),
                "{title}: there is no test `{name}`"
            );
        }
    }
}

#[test]
fn a_label_is_told_from_what_only_looks_like_one() {
    for label in ["PR08", "C1", "C20", "E5a", "E14", "H07", "H107", "M1", "M1b", "M2r", "R01", "Z1b", "X12"] {
        assert!(is_label(label), "{label}");
    }
    for other in ["", "PR", "PR8", "PR008", "H2", "T1", "X509", "E2E", "E5z", "M1br", "pr08", "B01", "Q1w"] {
        assert!(!is_label(other), "{other}");
    }
    let line = r#"assert!(found(F1, "H24: theirs"), "C3"); // PR08, and T05-like"#;
    assert_eq!(words(said(line).join(" ").as_str()).collect::<Vec<_>>(), ["H24", "C3", "PR08", "T05"]);
}

/// The labels that have a heading `### LABEL: …` or a row `| LABEL | …`.
fn definitions() -> Vec<String> {
    let texts = DOCUMENTS.map(|document| read(&root().join(document)));
    let lines = texts.iter().flat_map(|text| text.lines());
    let named = lines.filter_map(|line| {
        let heading = line.strip_prefix("### ").and_then(|rest| rest.split_once(": "));
        let row = line.strip_prefix("| ").and_then(|rest| rest.split_once(" | "));
        heading.or(row).map(|(label, _)| label)
    });
    named.filter(|label| is_label(label)).map(str::to_owned).collect()
}

/// Each cited label, with the files that cite it.
fn citations(of: impl Fn(&Path) -> bool) -> BTreeMap<String, BTreeSet<PathBuf>> {
    let mut cited: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    // The labels in this file are only examples.
    for path in files().into_iter().filter(|path| !path.ends_with("distlock/tests/protocol.rs") && of(path)) {
        let text = read(&path);
        for line in text.lines() {
            let said = if has_extension(&path, "rs") { said(line) } else { vec![line] };
            for label in said.into_iter().flat_map(words) {
                cited.entry(label.to_owned()).or_default().insert(path.clone());
            }
        }
    }
    cited
}

/// The strings and comments of a line of Rust: elsewhere, names of types and variants can look like labels.
fn said(line: &str) -> Vec<&str> {
    let (code, comment) = line.split_once("//").unwrap_or((line, ""));
    code.split('"').skip(1).step_by(2).chain([comment]).collect()
}

/// The words of a text that are labels.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| is_label(word))
}

fn is_label(word: &str) -> bool {
    FORMS.iter().any(|(prefix, digits, letters)| {
        word.strip_prefix(*prefix).is_some_and(|rest| {
            let number = rest.strip_suffix(|c: char| letters.contains(c)).unwrap_or(rest);
            digits.contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    })
}

/// The sources, scripts and documents of the repository.
fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let (path, name) = (entry.path(), entry.file_name());
            let is_script =
                path.extension().is_none() && path.parent().is_some_and(|parent| parent.ends_with("scripts"));
            let is_source = ["rs", "md", "lua", "sql"].iter().any(|wanted| has_extension(&path, wanted));
            if entry.file_type().unwrap().is_dir() {
                if name != "target" && !name.to_string_lossy().starts_with('.') {
                    folders.push(path);
                }
            } else if is_source || is_script {
                files.push(path);
            }
        }
    }
    files
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension == wanted)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}
