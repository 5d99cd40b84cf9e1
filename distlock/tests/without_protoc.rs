//! Only the etcd feature needs `protoc`, the compiler of Protocol Buffers: everything else is built without it.

use std::{env, fs, path::Path, process::Command};

/// Crates whose build scripts run `protoc`, and crates that build scripts use to run it.
const RUN_PROTOC: &[&str] =
    &["etcd-client", "prost-build", "protobuf-codegen", "protobuf-parse", "tonic-build", "tonic-prost-build"];

#[test]
fn nothing_but_the_etcd_feature_needs_protoc() {
    let features: Vec<_> = features().into_iter().filter(|feature| feature != "etcd").collect();
    assert!(features.iter().any(|feature| feature == "redis"), "{features:?}");
    // All features at once: features only add crates.
    let facade = ["--package", "distlock", "--features", &features.join(",")].map(str::to_owned);
    // The second is `cargo build`.
    for choice in [first_run_of_the_readme(), Vec::new(), facade.to_vec()] {
        let found = run_protoc(&choice);
        assert!(found.is_empty(), "{choice:?} cannot be built without protoc, for {found:?}");
    }
}

/// Otherwise the other test would find nothing, even if a crate ran it.
#[test]
fn the_etcd_feature_needs_protoc() {
    let facade = ["--package", "distlock", "--features", "etcd"].map(str::to_owned);
    let found = run_protoc(&facade);
    assert!(
        found.contains(&"etcd-client".to_owned()) && found.contains(&"prost-build".to_owned()),
        "{found:?}"
    );
}

/// The crates that run `protoc` in a build of these packages with these features.
fn run_protoc(choice: &[String]) -> Vec<String> {
    let cargo = env::var_os("CARGO").expect("cargo runs this test and says where it is");
    let mut tree = Command::new(cargo);
    tree.current_dir(root()).arg("tree").args(choice);
    tree.args(["--locked", "--offline", "--edges", "normal,build"]);
    let output = tree.args(["--prefix", "none", "--format", "{p}"]).output().expect("cargo can be started");
    assert!(output.status.success(), "{choice:?}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    let mut crates: Vec<_> = lines.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(crates.contains(&"lock-core"), "{choice:?} leads nowhere: {crates:?}");
    crates.sort_unstable();
    crates.dedup();
    crates.into_iter().filter(|name| RUN_PROTOC.contains(name)).map(str::to_owned).collect()
}

/// What the first command with `cargo run` in the README builds.
fn first_run_of_the_readme() -> Vec<String> {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let arguments =
        readme.lines().find_map(|line| line.strip_prefix("cargo run ")).expect("it runs something");
    let words = arguments.split_whitespace().take_while(|word| !matches!(*word, "--" | "#"));
    words.map(str::to_owned).collect()
}

/// The features of the facade.
fn features() -> Vec<String> {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let section = manifest.split("[features]\n").nth(1).expect("the facade has features");
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" = "));
    names.map(|(name, _)| name.to_owned()).filter(|name| name != "default").collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the workspace")
}
