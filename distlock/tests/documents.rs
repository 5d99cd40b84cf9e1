//! The links between the documents, and the page of the examples.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

#[test]
fn every_link_between_documents_leads_somewhere() {
    let documents = documents();
    assert!(documents.len() > 5, "the documents are found: {documents:?}");
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for link in links(&text).filter(|link| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { document.with_file_name(path) };
            assert!(target.exists(), "{}: `{link}` leads nowhere", document.display());
            let found = heading.is_empty() || headings(&target).contains(heading);
            assert!(found, "{}: there is no heading for `{link}`", document.display());
        }
    }
}

#[test]
fn the_page_of_the_examples_names_each_of_them_and_no_other() {
    let readme = fs::read_to_string(root().join("examples/README.md")).unwrap();
    let table = readme.split("| question | example |").nth(1).expect("the table of examples");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let named: BTreeSet<String> =
        rows.filter_map(|row| row.rsplit('|').nth(1)).map(|cell| cell.replace(['`', ' '], "")).collect();
    let there: BTreeSet<String> = fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    assert_eq!(named, there);
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}

fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/adr", "docs/backends", "examples", "fuzz", "lock-bench"]
        .map(|folder| root().join(folder));
    let files = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link)
}

/// The headings of a document, as links name them.
fn headings(document: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(document).unwrap();
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    let slug = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -".contains(*c))
            .collect::<String>()
            .replace(' ', "-")
    };
    headings.map(slug).collect()
}
