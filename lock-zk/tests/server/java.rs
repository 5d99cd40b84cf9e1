//! What is run with Java: servers, and a client with Curator's locks.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use lock_conformance::ServerProgram;

/// Names the class path of the server to start, where it is not the default one.
const SERVER_VARIABLE: &str = "DISTLOCK_TEST_ZK";

/// Names the image of the servers that run in containers (`LOCK_TEST_SERVERS=docker`).
const IMAGE_VARIABLE: &str = "LOCK_TEST_ZOOKEEPER_IMAGE";

/// Java with the classes of a server: on this machine, or in a container.
pub(super) fn server() -> ServerProgram {
    if ServerProgram::wants_containers() {
        // The folder of the image is named after its version. In the other one it says how much is to be logged: where nothing
        // does, logback logs everything, and a server that was busy with that lost leases.
        let run = r#"exec java -cp "/conf:$(echo /apache-zookeeper-*/lib)/*" "$@""#;
        return ServerProgram::in_container(IMAGE_VARIABLE, "zookeeper:3.9.4", ["sh", "-c", run, "java"]);
    }
    let mut command = vec![java().display().to_string()];
    let classes = env::var(SERVER_VARIABLE).unwrap_or_else(|_| {
        // Of no use to another class path, or to another Java, which say nothing of it.
        command.push(format!("-XX:SharedArchiveFile={}", printed(2)));
        class_path(0)
    });
    command.extend(["-cp".to_owned(), classes]);
    ServerProgram::local(command)
}

/// The class path of our own programs.
pub(super) fn client_classes() -> String {
    class_path(1)
}

/// What a class path that `scripts/zk/setup` knows stands in.
///
/// # Panics
/// If it is not there: a case must not pass without its server.
fn class_path(index: usize) -> String {
    let classes = printed(index);
    for part in classes.split(':') {
        let folder = Path::new(part.trim_end_matches("/*"));
        assert!(
            folder.is_dir(),
            "there is no {}, and without a server no case can pass: run scripts/setup, or name the class path of a \
             ZooKeeper in {SERVER_VARIABLE} or the URL of a server in {}",
            folder.display(),
            super::URL_VARIABLE
        );
    }
    classes
}

/// A line of what `scripts/zk/setup` prints.
fn printed(index: usize) -> String {
    static PRINTED: OnceLock<Vec<String>> = OnceLock::new();
    let printed = PRINTED.get_or_init(|| {
        let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/zk/setup");
        let printed = Command::new(setup).arg("--print").output().expect("scripts/zk/setup can be run");
        let printed = String::from_utf8(printed.stdout).expect("paths are text");
        printed.lines().map(str::to_owned).collect()
    });
    printed.get(index).expect("scripts/zk/setup prints three lines").clone()
}

/// The program itself.
pub(super) fn java() -> &'static Path {
    static JAVA: OnceLock<PathBuf> = OnceLock::new();
    JAVA.get_or_init(|| {
        let runs = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(runs.is_ok_and(|status| status.success()), "there is no `java`: run scripts/setup");
        PathBuf::from("java")
    })
}

/// What every program here is run with: no more compiling than pays off in a second, and room for all that a short test makes, so that
/// it ends before anything is collected. To collect stops the program, on a busy machine for half a second: longer than a lease may.
/// Only what is used takes memory.
pub(super) const FLAGS: [&str; 5] =
    ["-Xms256m", "-Xmx256m", "-Xmn224m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
