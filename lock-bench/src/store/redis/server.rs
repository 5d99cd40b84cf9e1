//! [`Server`]: a server that is started for the benchmark, on a free port of the loopback interface.

use std::{process::Command, time::Duration};

use lock_test_servers::redis::{PROGRAM, arguments};

use super::client::open;
use crate::{
    error::Result,
    store::{port::Port, server_process::ServerProcess},
};

/// The process ends, and its directory goes, when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    // First: it ends before its port is for others.
    process: ServerProcess,
    port: Port,
}

const START_TIMEOUT: Duration = Duration::from_secs(10);

impl Server {
    /// Starts `redis-server`, without persistence: the disk is not what is measured.
    pub(super) async fn start() -> Result<Self> {
        let (directory, port) = (tempfile::tempdir()?, Port::reserve());
        let mut command = Command::new(PROGRAM);
        command.args(arguments(port.number(), directory.path())).args(["--appendonly", "no"]);
        let mut server = Self { process: ServerProcess::start(PROGRAM, &mut command, directory)?, port };
        let client = open(&server.address())?;
        let own = server.pid();
        server.process.answer(START_TIMEOUT, || is_process(&client, own)).await?;
        Ok(server)
    }

    /// `host:port`.
    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Whether the server that answers is this process.
async fn is_process(client: &redis::Client, expected: u32) -> Result<()> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
    let pid = info.lines().find_map(|line| line.strip_prefix("process_id:"));
    let pid: u32 = pid.ok_or("the server does not say its process id")?.trim().parse()?;
    if pid == expected { Ok(()) } else { Err("its port belongs to another server".into()) }
}
