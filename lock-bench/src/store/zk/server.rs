//! [`Server`]: a server that is started for the benchmark, on a free port of the loopback interface.

use std::{fs, process::Command, time::Duration};

use lock_test_servers::{
    ask,
    zookeeper::{MAIN, installed, settings},
};
use tokio::time::timeout;

use super::client::TICK;
use crate::{
    error::Result,
    store::{port::Port, server_process::ServerProcess},
};

/// The process ends, and its directory goes, when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    // First: it ends before its port is for others.
    process: ServerProcess,
    address: String,
    version: String,
    #[expect(dead_code, reason = "it is kept for as long as the server runs")]
    port: Port,
}

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a server that starts may take to answer one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

impl Server {
    /// Starts a server, which does not wait for the disk: that is not what is measured.
    pub(super) async fn start() -> Result<Self> {
        let (directory, port) = (tempfile::tempdir()?, Port::reserve());
        let file = directory.path().join("zoo.cfg");
        let mut lines = settings(&directory.path().join("data"), port.number(), TICK);
        lines.extend(
            ["maxSessionTimeout=100000000", "maxClientCnxns=0", "4lw.commands.whitelist=*"]
                .map(str::to_owned),
        );
        fs::write(&file, lines.join("\n") + "\n")?;
        let mut command = Command::new("java");
        command.args(["-Xmx512m", "-Dzookeeper.forceSync=no", "-cp", &installed()?.server, MAIN]).arg(&file);
        let address = format!("127.0.0.1:{port}");
        let mut process = ServerProcess::start("zookeeper", &mut command, directory)?;
        let version = process.answer(START_TIMEOUT, || version(&address)).await?;
        Ok(Self { process, address, version, port })
    }

    /// `host:port`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }
}

/// Of a server that serves. A connection that is made while it starts may never be answered.
async fn version(address: &str) -> Result<String> {
    let answer = timeout(ANSWER_TIMEOUT, ask(address, "srvr")).await??;
    let version = answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
    let version = version
        .filter(|_| answer.contains("Mode: "))
        .ok_or_else(|| format!("it does not serve: {answer}"))?;
    Ok(version.split('-').next().unwrap_or_default().to_owned())
}
