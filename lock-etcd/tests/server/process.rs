//! [`program`]: what is run as an etcd server.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use lock_conformance::ServerProgram;

/// Names the image of the servers that run in containers (`LOCK_TEST_SERVERS=docker`).
const IMAGE_VARIABLE: &str = "LOCK_TEST_ETCD_IMAGE";

/// Names the server to start, where it is not the default one.
const BINARY_VARIABLE: &str = "DISTLOCK_TEST_ETCD";

/// The one of this machine, or one in a container.
pub(super) fn program() -> ServerProgram {
    if ServerProgram::wants_containers() {
        let default = "gcr.io/etcd-development/etcd:v3.7.3";
        return ServerProgram::in_container(IMAGE_VARIABLE, default, ["etcd"]);
    }
    ServerProgram::local([binary().display().to_string()])
}

/// The one of this machine: the one that [`BINARY_VARIABLE`] names, or else the first that `scripts/setup` knows.
fn binary() -> &'static Path {
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
