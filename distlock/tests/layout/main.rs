//! The imports in each crate: no file imports, directly or through others, a file that imports it. So a crate can be read downwards.
//!
//! A `use` imports the file that defines the item: re-exports are followed. A path in code, such as `super::event::instant(at)`, counts as a
//! `use`. A re-export of an item that the file itself does not use is no import, and neither is `mod x;`. Tests do not count. A parent and its
//! child are files like any others: one of them may import the other.

mod crate_files;
mod module;
mod tokens;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use self::crate_files::Crate;

#[test]
fn no_file_imports_a_file_that_imports_it() {
    let folders = source_folders();
    assert!(folders.len() >= 10, "the crates are found: {folders:?}");
    let (mut circles, mut imports) = (Vec::new(), 0);
    for folder in folders {
        let read = Crate::new(&sources(&folder));
        let shown = folder.strip_prefix(root()).unwrap().display();
        circles.extend(read.circles().iter().map(|circle| format!("{shown}: {circle}")));
        imports += read.imports().values().map(BTreeSet::len).sum::<usize>();
    }
    assert!(imports > 1_000, "the imports are read: {imports}");
    assert!(
        circles.is_empty(),
        "move what both need into a file that imports neither:\n{}",
        circles.join("\n")
    );
}

#[test]
fn a_circle_is_found_over_nested_braces_and_several_files() {
    let circles = circles(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\npub use self::a::A;"),
        (
            "a.rs",
            "use std::fmt;\nuse crate::{\n    b::{\n        self,\n        B,\n    },\n};\npub struct A(B);",
        ),
        ("b.rs", "use super::c::C as Other;\npub struct B(Other);"),
        ("c.rs", "fn f() -> crate::A { \"crate::b::B\"; loop {} }"),
    ]);
    assert_eq!(circles, ["a.rs → b.rs → c.rs → a.rs"]);
}

#[test]
fn a_circle_is_found_through_re_exports() {
    let circles = circles(&[
        ("main.rs", "mod a;\nmod folder;"),
        ("a.rs", "use crate::folder::{Deep, other};\npub struct A(Deep);"),
        ("folder/mod.rs", "mod deep;\npub(crate) use self::deep::Deep;\npub(crate) mod other {}"),
        ("folder/deep.rs", "use crate::a;\npub struct Deep;\nfn f() { a::g(); }"),
    ]);
    assert_eq!(circles, ["a.rs → folder/deep.rs → a.rs"]);
}

#[test]
fn a_child_that_imports_its_parent_is_a_circle_if_the_parent_needs_it() {
    let child = ("a/child.rs", "use super::A;\npub fn f(a: A) {}");
    let calls = "mod child;\npub struct A;\nfn g() { child::f(A); }";
    assert_eq!(circles(&[("lib.rs", "mod a;"), ("a.rs", calls), child]), ["a.rs → a/child.rs → a.rs"]);
    let exports = "mod child;\npub use self::child::f;\npub struct A;";
    assert!(circles(&[("lib.rs", "mod a;"), ("a.rs", exports), child]).is_empty());
    let uses = "mod child;\npub use self::child::f;\npub struct A;\nfn g() { f(A) }";
    assert_eq!(circles(&[("lib.rs", "mod a;"), ("a.rs", uses), child]), ["a.rs → a/child.rs → a.rs"]);
}

#[test]
fn tests_comments_literals_and_visibilities_import_nothing() {
    let circles = circles(&[
        ("lib.rs", "mod a;\nmod b;"),
        ("a.rs", "use crate::b::B;\npub struct A;\n#[cfg(test)]\nmod tests;"),
        ("a/tests.rs", "use super::*;\nuse crate::b::B;"),
        (
            "b.rs",
            "// use crate::a::A;\n/* use crate::a::A; */\npub(in crate::a) struct B<'a>(&'a str);\n\
             const C: (char, &str, &str) = ('\"', \"use crate::a::A; \\\"\", r#\"crate::a::A \"\"#);\n\
             macro_rules! m { () => { use crate::a::A; } }\n\
             #[cfg(test)]\n#[allow(unused)]\nmod tests { use crate::a::A; }\n\
             #[cfg(test)]\nuse crate::{a::A, a};",
        ),
    ]);
    assert!(circles.is_empty(), "{circles:?}");
}

fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    Crate::new(&files).circles().into_iter().collect()
}

/// The folders of the sources of all crates.
fn source_folders() -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root().to_owned()]);
    while let Some(folder) = folders.pop() {
        if folder.ends_with("src") && (folder.join("lib.rs").exists() || folder.join("main.rs").exists()) {
            found.push(folder);
        } else {
            folders.extend(subfolders(&folder));
        }
    }
    found
}

/// Each source file of a crate: its path below `src`, and its text.
fn sources(src: &Path) -> Vec<(String, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![src.to_owned()]);
    while let Some(folder) = folders.pop() {
        folders.extend(subfolders(&folder));
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
            let name = file.strip_prefix(src).unwrap().to_string_lossy().into_owned();
            found.push((name, fs::read_to_string(&file).unwrap()));
        }
    }
    found
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let folders = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    let read = folders.filter(|entry| {
        let name = entry.file_name();
        name != "target" && !name.to_string_lossy().starts_with('.')
    });
    read.map(|entry| entry.path()).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}
