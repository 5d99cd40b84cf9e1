//! [`TestServer`]: a server that one test owns, through restarts.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use lock_core::sync::{Mutex, MutexGuard};

use crate::{ServerProcess, ServerProgram, unique};

/// How long a server may take to start or to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a probe may take: if another program listens on the port, it may never answer.
const LOOK: Duration = Duration::from_secs(2);

/// A server with its own directory for data and log, which can be stopped and started again: the building block of a
/// [`ServerControl`](crate::ServerControl). Dropping it kills the server and removes the directory. So does the end of the test
/// process, even by a signal.
#[derive(Debug)]
pub struct TestServer {
    directory: PathBuf,
    /// The program with its arguments, and its process.
    run: Mutex<Option<(String, ServerProcess)>>,
}

impl TestServer {
    /// A server that does not run yet. The name of its directory contains `store`.
    ///
    /// # Panics
    /// If the directory cannot be made.
    #[must_use]
    pub fn new(store: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("distlock-{store}-{}", unique()));
        fs::create_dir(&directory).expect("a directory for the server can be made");
        Self { directory, run: Mutex::default() }
    }

    /// The directory for its data. Its log is there as well.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts it, without waiting until it answers. If it still runs, it is killed first.
    ///
    /// # Panics
    /// As [`ServerProcess::start`] does.
    pub fn launch(&self, program: &ServerProgram, arguments: &[String]) {
        self.kill();
        let mut process = ServerProcess::start(program, arguments, &self.log_file());
        process.leaves_nothing_in(&self.directory);
        *self.lock() = Some((format!("{program} with {}", arguments.join(" ")), process));
    }

    /// Waits until the probe `look` succeeds. Returns `false` if the server has ended because its port is in use, which it knows by the
    /// text `taken` in the log. A probe that takes longer than two seconds has failed.
    ///
    /// # Panics
    /// If the server ends for another reason, or does not answer within half a minute. The message has the command line and the log.
    pub async fn answers<F>(&self, taken: &str, look: impl FnMut() -> F) -> bool
    where
        F: Future<Output = bool>,
    {
        self.answers_within(PATIENCE, taken, look).await
    }

    async fn answers_within<F>(&self, patience: Duration, taken: &str, mut look: impl FnMut() -> F) -> bool
    where
        F: Future<Output = bool>,
    {
        let end = Instant::now() + patience;
        loop {
            if tokio::time::timeout(LOOK, look()).await == Ok(true) {
                return true;
            }
            let lives = self.is_alive();
            // Read after the check, so that an ended server's log is complete.
            let log = self.log();
            if !lives && log.contains(taken) {
                return false;
            }
            let late = Instant::now() >= end;
            if late || !lives {
                let tried = self.lock().as_ref().map(|(tried, _)| tried.clone()).unwrap_or_default();
                let how =
                    if lives { format!("does not answer after {patience:?}") } else { "has ended".into() };
                panic!("the server {how}; it was started as {tried}, and said:\n{log}");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Kills it, if it runs.
    pub fn kill(&self) {
        let run = self.lock().take();
        drop(run);
    }

    /// Shuts it down with a signal such as `TERM`, and waits until it has ended.
    ///
    /// # Panics
    /// If it does not run, or does not end.
    pub async fn stop(&self, signal: &str) {
        self.running(|process| process.signal(signal));
        let end = Instant::now() + PATIENCE;
        while self.is_alive() {
            assert!(Instant::now() < end, "the server did not end by {signal}:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.kill();
    }

    /// Calls `order` with its process.
    ///
    /// # Panics
    /// If it does not run.
    pub fn running(&self, order: impl FnOnce(&ServerProcess)) {
        order(&self.lock().as_ref().expect("the server runs").1);
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.lock().as_ref().is_some_and(|(_, process)| process.is_alive())
    }

    /// The log of its current run.
    #[must_use]
    pub fn log(&self) -> String {
        // Without a log there is nothing to show.
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn log_file(&self) -> PathBuf {
        self.directory.join("server.log")
    }

    fn lock(&self) -> MutexGuard<'_, Option<(String, ServerProcess)>> {
        self.run.lock()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
        // A leftover in a temporary directory is harmless.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    fn start(script: &str) -> TestServer {
        let server = TestServer::new("test");
        server.launch(&ServerProgram::local(["sh", "-c", script]), &["an-argument".to_owned()]);
        server
    }

    fn wait_for(server: &TestServer, look: impl Fn() -> bool) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(server.answers_within(SOON, "port is taken", || std::future::ready(look())))
    }

    fn complaint(server: &TestServer) -> String {
        let panic = catch_unwind(AssertUnwindSafe(|| wait_for(server, || false))).unwrap_err();
        *panic.downcast::<String>().unwrap()
    }

    #[test]
    fn a_server_that_never_answers_is_given_up_and_nothing_of_it_is_left() {
        let server = start("echo $$; exec sleep 60");
        let said = complaint(&server);
        assert!(said.contains("does not answer after 200ms; it was started as `sh -c"), "{said}");
        assert!(said.contains("with an-argument, and said:\n"), "{said}");
        let process = Path::new("/proc").join(server.log().trim());
        let directory = server.directory().to_owned();
        assert!(process.exists() && directory.exists());
        drop(server);
        assert!(!process.exists() && !directory.exists());
    }

    #[test]
    fn a_server_that_ends_is_not_waited_for() {
        let server = start("echo no disk; exit 1");
        let began = Instant::now();
        let said = complaint(&server);
        assert!(said.starts_with("the server has ended;") && said.ends_with("no disk\n"), "{said}");
        assert!(began.elapsed() < PATIENCE);
    }

    #[test]
    fn a_port_that_somebody_else_has_is_told() {
        assert!(!wait_for(&start("echo the port is taken"), || false));
    }

    #[test]
    fn a_server_that_answers_is_there() {
        let server = start("echo ready; exec sleep 60");
        assert!(wait_for(&server, || server.log() == "ready\n"));
    }
}
