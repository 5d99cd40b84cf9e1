//! [`OwnServer`]: a server that one test owns, and can stop, kill and empty.

use std::{
    env, fs,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use lock_conformance::{Port, ServerProcess, ServerProgram, TestServer};
use tokio_postgres::{Config, NoTls, SimpleQueryMessage};

/// How long a server may take to end, or to be reached, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The user of the server if the tests run as root, which PostgreSQL refuses: `nobody` has this id everywhere.
const NOBODY: u32 = 65534;

/// A server process on a port of its own, with its data in a folder of its own. Dropping it ends both.
#[derive(Debug)]
pub(crate) struct OwnServer {
    process: TestServer,
    port: Port,
}

impl OwnServer {
    /// Starts a server, and returns when it answers.
    pub(crate) async fn start() -> Self {
        loop {
            let server = Self::new(Port::reserve());
            if server.launch().await {
                server.make_role().await;
                return server;
            }
        }
    }

    /// A server that does not run yet.
    pub(crate) fn new(port: Port) -> Self {
        let process = TestServer::new("postgres");
        if is_root() {
            chown(process.directory(), Some(NOBODY), Some(NOBODY))
                .expect("root may give away what is its own");
        }
        let server = Self { process, port };
        server.make_data();
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Starts the process at its old address, and returns when it answers.
    ///
    /// # Panics
    /// If another process has taken its port and keeps it.
    pub(crate) async fn start_again(&self) {
        let end = Instant::now() + PATIENCE;
        while !self.launch().await {
            assert!(Instant::now() < end, "port {} was taken while the server was down", self.port);
        }
    }

    /// Starts the process, and returns when it answers. Returns `false` if another process has taken its port.
    pub(crate) async fn launch(&self) -> bool {
        let settings = [
            format!("port={}", self.port),
            "listen_addresses=127.0.0.1".to_owned(),
            "unix_socket_directories=".to_owned(),
            "max_connections=400".to_owned(),
            "shared_buffers=32MB".to_owned(),
            "dynamic_shared_memory_type=mmap".to_owned(),
            // The page cache survives the end of the process.
            "fsync=off".to_owned(),
        ];
        let mut arguments = vec!["-D".to_owned(), self.data().display().to_string()];
        arguments.extend(settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]));
        let (program, arguments) = unprivileged(&programs().join("postgres"), arguments);
        self.process.launch(&ServerProgram::local([program.display().to_string()]), &arguments);
        self.process.answers("Address already in use", || self.is_mine()).await
    }

    /// Whether this server answers, and not another one on the same port.
    async fn is_mine(&self) -> bool {
        let data = self.try_admin("SHOW data_directory").await;
        data.is_ok_and(|data| data.iter().any(|data| Path::new(data) == self.data()))
    }

    /// Ends the process: `INT` is a normal shutdown; `QUIT` is like a crash, but leaves no shared memory behind.
    pub(crate) fn end(&self, signal: &str) {
        if !self.process.is_alive() {
            return;
        }
        // A paused process would not handle the signal.
        self.process.running(ServerProcess::resume);
        self.process.running(|process| process.signal(signal));
        let end = Instant::now() + PATIENCE;
        while self.process.is_alive() && Instant::now() < end {
            thread::sleep(Duration::from_millis(2));
        }
        self.process.kill();
    }

    /// Creates the users of the clients.
    pub(crate) async fn make_role(&self) {
        self.admin("CREATE ROLE clients LOGIN; GRANT CREATE ON DATABASE postgres TO clients").await;
    }

    pub(crate) fn lose_data(&self) {
        fs::remove_dir_all(self.data()).expect("the data of our own server can be removed");
        self.take_pristine_data();
    }

    /// Calls `order` with the running process.
    pub(crate) fn running(&self, order: impl FnOnce(&ServerProcess)) {
        self.process.running(order);
    }

    /// Carries out statements as an administrator. Returns the rows of the last one as text.
    ///
    /// # Panics
    /// If one of them fails.
    pub(crate) async fn admin(&self, statements: &str) -> Vec<String> {
        self.try_admin(statements).await.unwrap_or_else(|error| panic!("{statements}: {error:?}"))
    }

    async fn try_admin(&self, statements: &str) -> Result<Vec<String>, tokio_postgres::Error> {
        let mut config = Config::new();
        config
            .host("127.0.0.1")
            .port(self.port.number())
            .user("postgres")
            .dbname("postgres")
            .connect_timeout(PATIENCE);
        let (client, connection) = config.connect(NoTls).await?;
        let driver = tokio::spawn(connection);
        let said = client.simple_query(statements).await?;
        drop(client);
        // Closes the connection properly, so that the server does not count it any more.
        let _ = driver.await;
        let text = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        Ok(said.iter().filter_map(text).collect())
    }

    /// The data folder is created once, and copied later: creating it takes as long as a lease, and a loss of data has to be quick.
    fn make_data(&self) {
        let pristine = self.process.directory().join("pristine").display().to_string();
        let arguments =
            ["-D", &pristine, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"];
        let (program, arguments) =
            unprivileged(&programs().join("initdb"), arguments.map(str::to_owned).to_vec());
        let made = Command::new(program).args(arguments).output().expect("initdb can be started");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        self.take_pristine_data();
    }

    fn take_pristine_data(&self) {
        let copied = Command::new("cp")
            .arg("-a")
            .arg(self.process.directory().join("pristine"))
            .arg(self.data())
            .status();
        assert!(copied.is_ok_and(|status| status.success()), "data of our own can be copied");
    }

    fn data(&self) -> PathBuf {
        self.process.directory().join("data")
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.end("QUIT");
    }
}

/// The program as a user other than root.
fn unprivileged(program: &Path, arguments: Vec<String>) -> (PathBuf, Vec<String>) {
    if !is_root() {
        return (program.to_owned(), arguments);
    }
    let nobody = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()];
    let program = program.display().to_string();
    (PathBuf::from("setpriv"), nobody.into_iter().chain([program]).chain(arguments).collect())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The folder of the server's programs: where Debian has them, or on the `PATH`.
///
/// # Panics
/// If there are none.
fn programs() -> PathBuf {
    let on_path =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let packaged = newest(Path::new("/usr/lib/postgresql"));
    let found = packaged.into_iter().chain(on_path).find(|folder| folder.join("initdb").exists());
    found.expect("there is no PostgreSQL server, and without one no test can pass: run scripts/setup")
}

/// The programs of the newest version in a folder of versions.
fn newest(versions: &Path) -> Option<PathBuf> {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = fs::read_dir(versions).ok()?.flatten().map(|version| version.path());
    versions.max_by_key(number).map(|version| version.join("bin"))
}

#[tokio::test]
async fn a_port_that_somebody_else_has_is_not_waited_for() {
    let port = Port::reserve();
    let _silent = std::net::TcpListener::bind(("127.0.0.1", port.number())).expect("no server listens there");
    let server = OwnServer::new(port);
    assert!(!server.launch().await, "the port of another process is taken for ours");
}
