//! [`binary`]: the program that is an etcd server.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// Names the server to start, where it is not the default one.
const BINARY_VARIABLE: &str = "DISTLOCK_TEST_ETCD";

/// The server to start: the one that [`BINARY_VARIABLE`] names, or else the first that `scripts/setup` knows.
pub(super) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let binary = env::var_os(BINARY_VARIABLE).map_or_else(default_binary, PathBuf::from);
        let version = Command::new(&binary).arg("--version").stdout(Stdio::null()).status();
        assert!(
            version.is_ok_and(|status| status.success()),
            "there is no etcd server at `{}`, and without a server no case can pass: run scripts/setup, or name \
             one in {BINARY_VARIABLE} or, by its URL, in {}",
            binary.display(),
            super::URL_VARIABLE
        );
        binary
    })
}

/// The first that `scripts/setup` has got.
fn default_binary() -> PathBuf {
    let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/etcd/setup");
    let printed = Command::new(setup).arg("--print").output().expect("scripts/etcd/setup can be run");
    let printed = String::from_utf8(printed.stdout).expect("paths of servers are text");
    printed.lines().next().unwrap_or_default().into()
}
