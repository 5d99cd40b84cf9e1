//! Everything that `docs/trust.md` names exists: cases, tests, checkers, files and commands.

use std::{
    fs,
    path::{Path, PathBuf},
};

use lock_conformance::cases;

const DOCUMENT: &str = include_str!("../../docs/trust.md");

#[test]
fn everything_that_the_page_about_trust_names_is_there() {
    let sources = Sources::read();
    let named: Vec<&str> = spans(DOCUMENT).collect();
    assert!(named.len() > 60, "the page is read: {named:?}");
    for name in named {
        if let Err(missing) = sources.have(name) {
            panic!("docs/trust.md names `{name}`, but {missing}");
        }
    }
}

#[test]
fn a_name_of_nothing_is_found() {
    let sources = Sources::read();
    for nothing in [
        "exclusion::a_case_that_is_not_there",
        "a_test_that_is_nowhere_at_all",
        "M99",
        "docs/nowhere.md",
        "scripts/nothing 20",
        "cargo test -p lock-nothing --test simulation",
        "cargo test -p lock-conformance --test nothing",
        "cargo test -p lock-engine-tests --test simulation no_such_test_of_it",
        "NOBODY_READS_THIS=1 cargo test -p lock-engine-tests --test simulation",
        "cargo run --release -p lock-bench -- --store redis --only nothing-of-it",
    ] {
        assert!(sources.have(nothing).is_err(), "{nothing}");
    }
}

/// The texts between backquotes.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The Rust source of the repository.
struct Sources(String);

impl Sources {
    fn read() -> Self {
        let mut text = String::new();
        let mut folders = vec![root().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
                let (path, name) = (entry.path(), entry.file_name());
                if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
                    folders.push(path);
                // This file names things that do not exist.
                } else if path.extension().is_some_and(|is| is == "rs") && name != "trust.rs" {
                    text += &fs::read_to_string(path).unwrap();
                }
            }
        }
        Self(text)
    }

    fn have(&self, name: &str) -> Result<(), String> {
        let is = |there: bool, what: &str| there.then_some(()).ok_or_else(|| what.to_owned());
        if let Some((group, case)) = name.split_once("::").filter(|(group, _)| !group.is_empty()) {
            return is(
                cases::all().any(|there| there.group == group && there.name == case),
                "there is no such case",
            );
        }
        if name.contains(' ') && (name.contains("cargo ") || name.starts_with("scripts/")) {
            return self.have_command(name);
        }
        if name.contains('/') || path(name).exists() {
            return is(path(name).exists(), "there is no such file");
        }
        if name.matches('_').count() > 2 {
            return is(self.0.contains(&format!("fn {name}(")), "there is no such test");
        }
        if name.strip_prefix('M').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
            return is(self.0.contains(&format!("\"{name}\"")), "there is no such checker");
        }
        is(self.0.contains(name) || name == "::", "no source has it")
    }

    /// Each variable is read somewhere, each package, test and row exists, and the filter matches a test.
    fn have_command(&self, command: &str) -> Result<(), String> {
        let mut words = command.split(' ').peekable();
        let mut package = root().to_owned();
        while let Some((variable, _)) = words.peek().and_then(|word| word.split_once('=')) {
            // Only proptest reads this one.
            if variable != "PROPTEST_CASES" && !self.0.contains(&format!("\"{variable}\"")) {
                return Err(format!("no source reads {variable}"));
            }
            words.next();
        }
        let program = words.next().unwrap_or_default();
        if program != "cargo" && !path(program).exists() {
            return Err(format!("there is no {program}"));
        }
        let mut filters = words.clone().any(|word| word == "test");
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_default();
            let there = match word {
                "-p" => {
                    package = path(value());
                    package.join("Cargo.toml").exists()
                }
                "--test" => {
                    let test = package.join("tests").join(value());
                    test.with_extension("rs").exists() || test.join("main.rs").exists()
                }
                "--only" => self.0.contains(&format!("\"{}", value())),
                "--" => {
                    filters = false;
                    true
                }
                filter if filters && filter != "test" && !filter.starts_with('-') => {
                    // The beginning of a test's name, or a module of tests.
                    ["fn", "mod"].iter().any(|item| self.0.contains(&format!("{item} {filter}")))
                }
                _ => true,
            };
            if !there {
                return Err(format!("`{word}` names nothing"));
            }
        }
        Ok(())
    }
}

fn path(below: &str) -> PathBuf {
    root().join(below)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}
