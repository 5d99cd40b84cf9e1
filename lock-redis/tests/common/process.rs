//! [`Process`]: one run of `redis-server`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use lock_conformance::{ServerProcess, ServerProgram};

/// Names the image of the servers that run in containers (`LOCK_TEST_SERVERS=docker`).
const IMAGE_VARIABLE: &str = "LOCK_TEST_REDIS_IMAGE";

/// How long one look at a server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A server process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    server: ServerProcess,
    directory: String,
    log: PathBuf,
}

/// How far a server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    NotYet,
    Done,
    /// Somebody else has its port.
    InVain,
}

impl Process {
    /// Starts a server on a port of the loopback interface, with its data and its log in a directory, and these arguments
    /// on its command line. It may not be listening yet.
    pub(crate) fn start(port: u16, directory: &Path, arguments: &[String]) -> Self {
        let (port, directory) = (port.to_string(), directory.display().to_string());
        let first = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", &directory];
        let arguments: Vec<_> =
            first.map(str::to_owned).into_iter().chain(arguments.iter().cloned()).collect();
        let log = Path::new(&directory).join("server.log");
        Self { server: ServerProcess::start(&program(), &arguments, &log), directory, log }
    }

    /// Starts a sentinel that watches nothing.
    pub(crate) fn sentinel(port: u16, directory: &Path) -> Self {
        // It writes down there what it knows.
        let file = directory.join("sentinel.conf");
        fs::write(&file, format!("port {port}\nbind 127.0.0.1\ndir {}\n", directory.display())).unwrap();
        let (log, arguments) =
            (directory.join("server.log"), [file.display().to_string(), "--sentinel".to_owned()]);
        let server = ServerProcess::start(&program(), &arguments, &log);
        Self { server, directory: directory.display().to_string(), log }
    }

    /// Looks once whether the server is there.
    pub(crate) fn look(&self, client: &redis::Client) -> Start {
        // Our own server, and not somebody else's on the same port.
        let up = client.get_connection_with_timeout(PATIENCE).and_then(|mut connection| {
            connection.set_read_timeout(Some(PATIENCE))?;
            let (_, directory): (String, String) =
                redis::cmd("CONFIG").arg("GET").arg("dir").query(&mut connection)?;
            // It tells about itself before it has read its data, and about its data only then.
            redis::cmd("DBSIZE").exec(&mut connection).map(|()| directory == self.directory)
        });
        match up {
            Ok(true) => Start::Done,
            _ if self.log().contains("Address already in use") => Start::InVain,
            _ => Start::NotYet,
        }
    }

    /// Makes the server stand still.
    pub(crate) fn pause(&self) {
        self.server.pause();
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.server.resume();
    }

    /// What the server wrote to its log, for the message of a failure.
    pub(crate) fn log(&self) -> String {
        // Without a log there is nothing to show.
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The one of this machine, or one in a container.
fn program() -> ServerProgram {
    if ServerProgram::wants_containers() {
        return ServerProgram::in_container(IMAGE_VARIABLE, "redis:7.4", ["redis-server"]);
    }
    assert!(
        is_installed(),
        "redis-server is not installed, and without a server no test can pass: run scripts/setup"
    );
    ServerProgram::local(["redis-server"])
}

fn is_installed() -> bool {
    let version = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}
