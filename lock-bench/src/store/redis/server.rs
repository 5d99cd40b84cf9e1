//! [`Server`]: a server that is started for the benchmark, on a free port of the loopback interface.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::time::sleep;

use crate::{error::Result, store::port::Port};

/// The process ends, and its directory goes, when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    port: Port,
    #[expect(dead_code, reason = "only its drop does something")]
    directory: TempDir,
}

const START_TIMEOUT: Duration = Duration::from_secs(10);

impl Server {
    /// Starts `redis-server`, without persistence: the disk is not what is measured.
    pub(super) async fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let port = Port::reserve();
        let process = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("redis-server: {error}; install it, for example with scripts/setup"))?;
        let mut server = Self { process, port, directory };
        server.wait_until_it_answers().await?;
        Ok(server)
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    async fn wait_until_it_answers(&mut self) -> Result<()> {
        let client = redis::Client::open(self.url())?;
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Err(format!("redis-server ended at its start: {status}").into());
            }
            match pid(&client).await {
                Ok(pid) if pid == self.process.id() => return Ok(()),
                Ok(_) => return Err(format!("port {} belongs to another server", self.port).into()),
                Err(error) if started.elapsed() > START_TIMEOUT => {
                    return Err(format!("redis-server does not answer: {error}").into());
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

/// The process id of the server that answers, which may be another.
async fn pid(client: &redis::Client) -> Result<u32> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:"));
    Ok(pid.ok_or("the server does not say its process id")?.trim().parse()?)
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; there is nothing to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
