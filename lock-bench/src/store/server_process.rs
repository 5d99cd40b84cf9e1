//! [`ServerProcess`]: a server that is started for the benchmark.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::time::sleep;

use crate::error::Result;

/// The process ends, and its directory goes, when this is dropped.
#[derive(Debug)]
pub(super) struct ServerProcess {
    name: &'static str,
    process: Child,
    #[expect(dead_code, reason = "only its drop does something")]
    directory: TempDir,
}

impl ServerProcess {
    /// Starts a server whose data are in the directory. Its output goes nowhere. Errors call it by its name.
    pub(super) fn start(name: &'static str, command: &mut Command, directory: TempDir) -> Result<Self> {
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process =
            process.map_err(|error| format!("{name}: {error}; scripts/setup gets what is missing"))?;
        Ok(Self { name, process, directory })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns what the server answers as soon as it does.
    pub(super) async fn answer<T, F>(&mut self, patience: Duration, mut ask: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Err(format!("{} ended at its start: {status}", self.name).into());
            }
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) if started.elapsed() > patience => {
                    return Err(format!("{} does not answer: {error}", self.name).into());
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already; there is nothing to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
