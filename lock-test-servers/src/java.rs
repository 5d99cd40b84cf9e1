//! Java programs: servers, and our own programs.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    sync::OnceLock,
};

use lock_conformance::ServerProgram;

use crate::zookeeper::{self, Installed};

/// Names the class path of the server to start, if not the default one.
const SERVER_VARIABLE: &str = "DISTLOCK_TEST_ZK";

/// Names the image of the servers that run in containers (`LOCK_TEST_SERVERS=docker`).
const IMAGE_VARIABLE: &str = "LOCK_TEST_ZOOKEEPER_IMAGE";

/// The arguments of the programs of a test: quick compilation only, and a heap that a short test does not fill, so that no garbage is collected.
/// A collection stops the program, on a busy machine for half a second, which is longer than a lease may last. Unused heap takes no memory.
pub const SHORT_RUN: [&str; 5] =
    ["-Xms256m", "-Xmx256m", "-Xmn224m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/// Java with the classes of a server: on this machine, or in a container.
pub(crate) fn server() -> ServerProgram {
    if ServerProgram::wants_containers() {
        // The folder in the image is named after its version. The folder `/conf` sets how much is logged: without it, logback logs everything,
        // and a server that was busy with that lost leases.
        let run = r#"exec java -cp "/conf:$(echo /apache-zookeeper-*/lib)/*" "$@""#;
        return ServerProgram::in_container(IMAGE_VARIABLE, "zookeeper:3.9.4", ["sh", "-c", run, "java"]);
    }
    let mut command = vec![program().to_owned()];
    let classes = env::var(SERVER_VARIABLE).unwrap_or_else(|_| {
        // With another class path or another Java, the archive is ignored without a message.
        command.push(format!("-XX:SharedArchiveFile={}", installed().archive));
        existing(&installed().server).to_owned()
    });
    command.extend(["-cp".to_owned(), classes]);
    ServerProgram::local(command)
}

/// The Java program.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn program() -> &'static str {
    const JAVA: &str = "java";
    static RUNS: OnceLock<bool> = OnceLock::new();
    let runs = *RUNS.get_or_init(|| {
        let version = Command::new(JAVA).arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    });
    assert!(runs, "there is no `{JAVA}`: run scripts/setup");
    JAVA
}

/// The class path of our own programs: see `scripts/zk`.
///
/// # Panics
/// If they are not installed.
#[must_use]
pub fn client_classes() -> &'static str {
    existing(&installed().clients)
}

/// Checks that the folders of a class path exist: no test can pass without its server.
fn existing(classes: &str) -> &str {
    for part in classes.split(':') {
        let folder = Path::new(part.trim_end_matches("/*"));
        assert!(
            folder.is_dir(),
            "there is no {}, and without a server no test can pass: run scripts/setup, or name the class path of a \
             ZooKeeper in {SERVER_VARIABLE} or the URL of a server in {}",
            folder.display(),
            zookeeper::URL_VARIABLE
        );
    }
    classes
}

fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| zookeeper::installed().unwrap_or_else(|why| panic!("{why}")))
}
