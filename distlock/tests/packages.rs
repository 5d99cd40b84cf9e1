//! The published crates: each has a description, a README and licences, and can be built by itself.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The categories of our crates. crates.io accepts only those of <https://crates.io/category_slugs>.
const CATEGORIES: &[&str] =
    &["asynchronous", "command-line-utilities", "concurrency", "database", "development-tools::testing"];

/// The licences at the root.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

#[test]
fn every_published_crate_says_what_it_is_and_who_may_use_it() {
    for package in published() {
        let name = package.name();
        assert!(!package.text("description").contains('\n'), "{name}");
        assert_eq!(package.text("license"), "MIT OR Apache-2.0", "{name}");
        assert!(package.text("repository").starts_with("https://"), "{name}");
        assert!(!package.text("rust_version").is_empty(), "{name}");
    }
}

/// These are limits of crates.io, which cargo does not check before it uploads.
#[test]
fn every_published_crate_is_found_by_words_that_crates_io_takes() {
    for package in published() {
        let (keywords, categories) = (package.texts("keywords"), package.texts("categories"));
        assert!((1..=5).contains(&keywords.len()), "{}: {keywords:?}", package.name());
        for keyword in keywords {
            let begins = keyword.starts_with(|c: char| c.is_ascii_alphanumeric());
            let letters = keyword.chars().all(|c| c.is_ascii_alphanumeric() || "-_+".contains(c));
            assert!(begins && letters && keyword.len() <= 20, "{}: `{keyword}`", package.name());
        }
        assert!((1..=5).contains(&categories.len()), "{}: {categories:?}", package.name());
        for category in categories {
            assert!(CATEGORIES.contains(&category.as_str()), "{}: `{category}`", package.name());
        }
    }
}

#[test]
fn every_package_has_its_source_a_readme_and_both_licences() {
    let of_all = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let of_all = included(&of_all).expect("the workspace says what is in a package");
    for package in published() {
        let manifest = fs::read_to_string(package.folder().join("Cargo.toml")).unwrap();
        let inherited = manifest.contains("\ninclude.workspace = true\n");
        let included = included(&manifest).or_else(|| inherited.then(|| of_all.clone()));
        let included = included.unwrap_or_else(|| panic!("{} has all of its tests", package.name()));
        for path in ["/src", "/README.md", "/LICENSE-*"] {
            assert!(included.contains(&path.to_owned()), "{} has no `{path}`: {included:?}", package.name());
        }
        for path in included.iter().filter(|path| !path.ends_with('*')) {
            let path = package.folder().join(path.trim_start_matches('/'));
            assert!(path.exists(), "{} is not there", path.display());
        }
        assert_eq!(package.text("readme"), "README.md", "{}", package.name());
        for licence in LICENCES {
            let there = fs::read_to_string(package.folder().join(licence));
            let there = there.unwrap_or_else(|error| panic!("{}: {licence}: {error}", package.name()));
            assert_eq!(there, fs::read_to_string(root().join(licence)).unwrap(), "{}", package.name());
        }
    }
}

/// On crates.io, relative links do not lead into the repository.
#[test]
fn the_readme_of_a_package_links_to_whole_addresses_that_exist() {
    let packages = published();
    let names: BTreeSet<_> = packages.iter().map(Package::name).collect();
    for package in &packages {
        let (name, readme) = (package.name(), package.readme());
        assert!(readme.starts_with(&format!("# {name}\n")), "{name}");
        for link in readme.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if let Some(path) = link.strip_prefix(package.text("repository")) {
                let path = path.trim_start_matches("/blob/main").trim_start_matches("/tree/main");
                let path = root().join(path.trim_start_matches('/'));
                assert!(path.exists(), "{name}: `{link}` leads nowhere");
            } else {
                let other = link.strip_prefix("https://crates.io/crates/");
                assert!(other.is_some_and(|other| names.contains(other)), "{name}: `{link}`");
            }
        }
        let leads = readme.contains("[`distlock`](https://crates.io/crates/distlock)");
        assert!(leads || name == "distlock", "{name}: most users want another crate");
    }
}

/// The examples of the top README are compiled and run, by `distlock/src/lib.rs`.
#[test]
fn the_examples_in_the_readme_of_a_package_are_those_of_the_readme() {
    let tested = fs::read_to_string(root().join("README.md")).unwrap();
    let mut examples = 0;
    for package in published() {
        for block in package.readme().split("```rust\n").skip(1) {
            let (example, _) = block.split_once("```").expect("a block ends");
            assert!(tested.contains(&format!("```rust\n{example}```")), "{}: {example}", package.name());
            examples += 1;
        }
    }
    assert!(examples > 0, "the README of the facade shows how it is used");
}

#[test]
fn docs_rs_shows_every_feature_of_a_library_with_its_badge() {
    for package in published().into_iter().filter(Package::is_library) {
        let (name, settings) = (package.name(), &package.0["metadata"]["docs"]["rs"]);
        assert_eq!(settings["all-features"], true, "{name}");
        assert_eq!(settings["rustdoc-args"], serde_json::json!(["--cfg", "docsrs"]), "{name}");
        // The API is the same on every target, and SQLite is built on Linux only.
        assert_eq!(settings["targets"], serde_json::json!(["x86_64-unknown-linux-gnu"]), "{name}");
        let library = fs::read_to_string(package.folder().join("src/lib.rs")).unwrap();
        let badges = library.contains("\n#![cfg_attr(docsrs, feature(doc_cfg))]\n");
        let gated = library.contains("cfg(feature = ") || library.contains("cfg(all(feature = ");
        assert!(badges || !gated, "{name}: what a feature brings has no badge");
    }
}

#[test]
fn the_names_to_reserve_are_all_crates_in_the_order_of_publishing() {
    let contributing = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (_, releases) = contributing.split_once("\n## Releases\n").expect("it has a section on releases");
    let numbered = releases.lines().filter_map(|line| line.split_once(". `"));
    let listed = numbered.filter(|(number, _)| number.parse::<u8>().is_ok());
    let names: Vec<_> = listed.map(|(_, name)| name.trim_end_matches('`')).collect();
    let packages = published();
    let there: BTreeSet<_> = packages.iter().map(Package::name).collect();
    assert_eq!(names.iter().copied().collect::<BTreeSet<_>>(), there);
    assert_eq!(names.len(), there.len(), "a name is there twice: {names:?}");
    let place = |name: &str| names.iter().position(|listed| *listed == name);
    for package in &packages {
        for (needed, version, of_tests) in package.siblings() {
            // Cargo leaves a dev-dependency with only a path out of the package: tests that need it cannot be run from the package.
            if of_tests && !there.contains(needed.as_str()) {
                assert_eq!(version, "*", "{} asks for a version of {needed}", package.name());
                continue;
            }
            assert!(place(&needed) < place(package.name()), "{} needs {needed} before it", package.name());
            assert!(
                there.contains(needed.as_str()),
                "{} needs {needed}, which is not published",
                package.name()
            );
            // Any other dependency with only a path cannot be published, or is left out without need.
            assert_ne!(version, "*", "{} does not say which {needed}", package.name());
        }
    }
}

#[test]
fn commands_that_get_a_crate_of_ours_work_before_a_release_too() {
    let packages = published();
    let names: BTreeSet<_> = packages.iter().map(Package::name).collect();
    let mut commands = 0;
    for document in documents(&packages) {
        let text = fs::read_to_string(&document).unwrap();
        let lines =
            text.lines().filter(|line| line.starts_with("cargo add ") || line.starts_with("cargo install "));
        for line in lines {
            let words: Vec<_> = line.split('#').next().unwrap_or(line).split_whitespace().collect();
            if !words.iter().any(|word| names.contains(word)) {
                continue;
            }
            let from = words.windows(2).find(|pair| pair[0] == "--git" || pair[0] == "--path");
            let right =
                from.is_some_and(|from| from[0] == "--path" || from[1] == packages[0].text("repository"));
            assert!(right, "{}: `{line}` finds nothing before a release", document.display());
            commands += 1;
        }
    }
    assert!(commands > 3, "the guides have such commands, and {commands} were found");
}

/// A crate that is published, as cargo describes it.
struct Package(Value);

impl Package {
    fn name(&self) -> &str {
        self.text("name")
    }

    /// A required text of the manifest.
    fn text(&self, key: &str) -> &str {
        let text = self.0[key].as_str().filter(|text| !text.trim().is_empty());
        text.unwrap_or_else(|| panic!("{} has no `{key}`", self.0["name"]))
    }

    fn texts(&self, key: &str) -> Vec<String> {
        serde_json::from_value(self.0[key].clone()).expect("it is a list of texts")
    }

    fn folder(&self) -> &Path {
        Path::new(self.text("manifest_path")).parent().expect("a manifest is in a folder")
    }

    fn readme(&self) -> String {
        let readme = fs::read_to_string(self.folder().join("README.md"));
        readme.unwrap_or_else(|error| panic!("{}: its README: {error}", self.name()))
    }

    fn is_library(&self) -> bool {
        self.folder().join("src/lib.rs").exists()
    }

    /// The crates of this workspace that it needs, with their versions, and whether only its tests need them.
    fn siblings(&self) -> Vec<(String, String, bool)> {
        let dependencies = self.0["dependencies"].as_array().expect("cargo lists them");
        let beside = dependencies.iter().filter(|dependency| dependency["path"].is_string());
        let text = |value: &Value| value.as_str().expect("it is a text").to_owned();
        let of_tests = |dependency: &Value| dependency["kind"] == "dev";
        beside
            .map(|dependency| (text(&dependency["name"]), text(&dependency["req"]), of_tests(dependency)))
            .collect()
    }
}

fn published() -> Vec<Package> {
    let cargo = env::var_os("CARGO").expect("cargo runs this test and says where it is");
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"]);
    let output = command.current_dir(root()).output().expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut described: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages: Vec<Value> = serde_json::from_value(described["packages"].take()).expect("it is a list");
    let packages = packages.into_iter().filter(|package| package["publish"].is_null());
    let packages: Vec<_> = packages.map(Package).collect();
    assert!(packages.iter().any(|package| package.name() == "distlock"), "the facade is published");
    packages
}

/// The `include` list of a manifest, if there is one.
fn included(manifest: &str) -> Option<Vec<String>> {
    let list = manifest.lines().find_map(|line| line.strip_prefix("include = "))?;
    Some(serde_json::from_str(list).expect("a list of TOML in one line is one of JSON"))
}

/// What users read: in the repository, and on crates.io.
fn documents(packages: &[Package]) -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/backends"].map(|folder| root().join(folder));
    let folders = folders.into_iter().chain(packages.iter().map(|package| package.folder().to_owned()));
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}
