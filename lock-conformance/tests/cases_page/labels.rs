//! [`Label`]: what `docs/protocol.md` defines.

/// A rule, a checker, or a group of cases.
pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) about: String,
    /// The tests that the document names, and files of tests.
    pub(crate) tested_by: Vec<String>,
}

/// The labels in the order of the document: each has a heading `### LABEL: …`, or a row `| LABEL | … |` further down.
pub(crate) fn read_labels(document: &str) -> Vec<Label> {
    let mut labels = Vec::new();
    for rule in document.split("\n### ").skip(1) {
        let title = rule.lines().next().unwrap_or_default();
        if let Some((name, about)) = title.split_once(": ") {
            labels.push(Label { name: name.to_owned(), about: about.to_owned(), tested_by: tests_of(rule) });
        }
        for line in rule.lines() {
            if let Some((name, about)) = row(line)
                && is_label(name)
            {
                labels.push(Label { name: name.to_owned(), about: about.to_owned(), tested_by: Vec::new() });
            }
        }
    }
    labels
}

fn tests_of(rule: &str) -> Vec<String> {
    let paragraph = rule.split("\n\n").find(|paragraph| paragraph.starts_with("*Tested by*"));
    paragraph.unwrap_or_default().split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The first cell of a row, and the rest.
fn row(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")
}

fn is_label(cell: &str) -> bool {
    let begins = cell.starts_with(|c: char| c.is_ascii_uppercase());
    begins && cell.len() <= 4 && cell.contains(|c: char| c.is_ascii_digit())
}
