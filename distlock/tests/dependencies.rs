//! The crates that each feature brings.

use std::{env, process::Command};

#[test]
fn the_default_features_bring_no_client_of_any_store() {
    let crates = crates_with(&[]);
    assert!(crates.contains(&"lock-core".to_owned()), "{crates:?}");
    for unwanted in [
        "redis",
        "lock-redis",
        "etcd-client",
        "lock-etcd",
        "zookeeper-client",
        "lock-zk",
        "tonic",
        "rustls",
        "ring",
        "rusqlite",
    ] {
        assert!(!crates.contains(&unwanted.to_owned()), "`{unwanted}` comes with the default features");
    }
}

#[test]
fn the_redis_feature_brings_the_client_of_redis() {
    assert!(crates_with(&["redis"]).contains(&"lock-redis".to_owned()));
}

#[test]
fn the_zk_feature_brings_no_second_provider_of_cryptography() {
    let crates = crates_with(&["zk"]);
    assert!(crates.contains(&"zookeeper-client".to_owned()));
    assert!(
        !crates.contains(&"aws-lc-rs".to_owned()) && !crates.contains(&"rustls".to_owned()),
        "{crates:?}"
    );
}

#[test]
fn only_tls_to_zookeeper_brings_a_second_provider_of_cryptography() {
    for features in [&["zk-tls"][..], &["etcd", "redis", "sqlite", "zk"]] {
        let second = crates_with(features).contains(&"aws-lc-rs".to_owned());
        assert_eq!(second, features.contains(&"zk-tls"), "{features:?}");
    }
}

#[test]
fn the_etcd_feature_brings_the_client_of_etcd_and_no_other_does() {
    assert!(crates_with(&["etcd"]).contains(&"etcd-client".to_owned()));
    assert!(!crates_with(&["redis"]).contains(&"etcd-client".to_owned()));
}

/// The crates that `distlock` is built from with these features.
fn crates_with(features: &[&str]) -> Vec<String> {
    let cargo = env::var_os("CARGO").expect("cargo runs this test and says where it is");
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--package", "distlock", "--edges", "normal", "--prefix", "none", "--format", "{p}"]);
    tree.args(["--locked", "--offline", "--features", &features.join(",")]);
    let output = tree.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    lines.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}
