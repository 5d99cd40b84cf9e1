//! [`Sources`]: what stands in the sources about cases and labels.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Tests, and files of tests, by the folder of their crate.
pub(crate) type Tests = BTreeMap<String, BTreeSet<String>>;

/// The comments and tests of all crates.
#[derive(Default)]
pub(crate) struct Sources {
    /// What the function of a case says beyond its name.
    comments: BTreeMap<String, String>,
    /// In which crates there is a test of that name.
    folders: BTreeMap<String, BTreeSet<String>>,
    /// Who cites a label.
    citations: BTreeMap<String, Tests>,
}

impl Sources {
    /// Reads all crates below a folder. Tests of the suite itself and of documents do not count.
    pub(crate) fn read(root: &Path, labels: &BTreeSet<&str>) -> Self {
        let mut sources = Self::default();
        for path in files(root) {
            let text = fs::read_to_string(&path).unwrap();
            let file = path.strip_prefix(root).unwrap().to_string_lossy();
            if file.starts_with("lock-conformance/src/cases/") {
                sources.read_comments(&text);
            } else if !file.starts_with("lock-conformance/") && !file.starts_with("distlock/") {
                sources.read_tests(&file, &text, labels);
            }
        }
        sources
    }

    /// What the function of a case says beyond its name. Empty if nothing.
    pub(crate) fn comment(&self, case: &str) -> &str {
        self.comments.get(case).map_or("", String::as_str)
    }

    /// Who cites a label.
    pub(crate) fn citing(&self, label: &str) -> Tests {
        self.citations.get(label).cloned().unwrap_or_default()
    }

    /// The crates that have a test of that name, or that file.
    ///
    /// # Panics
    /// If none has.
    pub(crate) fn folders_of(&self, test: &str) -> BTreeSet<String> {
        if test.contains('/') {
            return BTreeSet::from([folder(test).to_owned()]);
        }
        let found = self.folders.get(test);
        found.unwrap_or_else(|| panic!("docs/protocol.md names `{test}`, which is no test")).clone()
    }

    fn read_comments(&mut self, text: &str) {
        let mut comment = Vec::new();
        for line in text.lines() {
            if let Some(words) = line.strip_prefix("///") {
                comment.push(words.trim());
            } else if let Some(name) = function(line) {
                // What has two forms has the one for this platform first.
                self.comments.entry(name.to_owned()).or_insert_with(|| comment.join(" "));
                comment.clear();
            } else if !line.starts_with("#[") {
                comment.clear();
            }
        }
    }

    /// A test cites what stands in it and right above it, and a file of tests what its own comment says.
    fn read_tests(&mut self, file: &str, source: &str, labels: &BTreeSet<&str>) {
        let folder = folder(file);
        let (mut of_file, mut above) = (BTreeSet::new(), BTreeSet::new());
        let (mut is_test, mut has_tests) = (false, false);
        // The function that the lines are in, if it is a test, and how far that is indented.
        let mut within: Option<(Option<&str>, usize)> = None;
        for line in source.lines() {
            let code = line.trim_start();
            let indent = line.len() - code.len();
            let cited = said(code).flat_map(words).filter(|word| labels.contains(word));
            match within {
                Some((test, end)) => {
                    for label in cited {
                        self.cite(label, folder, test);
                    }
                    if code == "}" && indent == end {
                        within = None;
                    }
                }
                None if code.starts_with("//!") => of_file.extend(cited),
                None if code.is_empty() => {
                    above.clear();
                    is_test = false;
                }
                None => {
                    above.extend(cited);
                    is_test |= code == "#[test]" || code.starts_with("#[tokio::test");
                    if let Some(name) = function(code) {
                        let test = is_test.then_some(name);
                        for label in &above {
                            self.cite(label, folder, test);
                        }
                        if is_test {
                            self.folders.entry(name.to_owned()).or_default().insert(folder.to_owned());
                        }
                        has_tests |= is_test;
                        within = (!code.ends_with(['}', ';'])).then_some((test, indent));
                        above.clear();
                        is_test = false;
                    }
                }
            }
        }
        for label in of_file {
            self.cite(label, folder, has_tests.then_some(file));
        }
    }

    /// Records that something cites a label, if it is a test.
    fn cite(&mut self, label: &str, folder: &str, test: Option<&str>) {
        if let Some(test) = test {
            let tests = self.citations.entry(label.to_owned()).or_default();
            tests.entry(folder.to_owned()).or_default().insert(test.to_owned());
        }
    }
}

/// The words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// The strings and the comment of a line.
fn said(line: &str) -> impl Iterator<Item = &str> {
    let (code, comment) = line.split_once("//").unwrap_or((line, ""));
    code.split('"').skip(1).step_by(2).chain([comment])
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_qualifier =
        |word: &str| word.starts_with("pub") || word.ends_with(')') || ["async", "const"].contains(&word);
    let (name, _) = rest.split_once(['(', '<'])?;
    before.split_whitespace().all(is_qualifier).then_some(name)
}

/// The folder of the crate that a file is in.
fn folder(file: &str) -> &str {
    let end = file.find("/src/").or_else(|| file.find("/tests/")).or_else(|| file.find('/'));
    &file[..end.unwrap_or(0)]
}

/// All Rust sources below a folder, in the order of their paths.
fn files(root: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let (path, name) = (entry.path(), entry.file_name());
            if path.is_dir() {
                if name != "target" && !name.to_string_lossy().starts_with('.') {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.insert(path);
            }
        }
    }
    found
}
