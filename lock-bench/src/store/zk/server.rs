//! Starts a server for the benchmark.

use std::{fs, process::Command, time::Duration};

use lock_test_servers::{
    ask,
    zookeeper::{MAIN, installed, settings},
};
use tokio::time::timeout;

use super::client::TICK;
use crate::{
    error::Result,
    store::{port::Port, server_process::ServerProcess, started_server::StartedServer},
};

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a server that starts may take to answer one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts a server, which does not wait for the disk: that is not what is measured.
pub(super) async fn start() -> Result<StartedServer> {
    let (directory, port) = (tempfile::tempdir()?, Port::reserve());
    let file = directory.path().join("zoo.cfg");
    let mut lines = settings(&directory.path().join("data"), port.number(), TICK);
    lines.extend(
        ["maxSessionTimeout=100000000", "maxClientCnxns=0", "4lw.commands.whitelist=*"].map(str::to_owned),
    );
    fs::write(&file, lines.join("\n") + "\n")?;
    let mut command = Command::new("java");
    command.args(["-Xmx512m", "-Dzookeeper.forceSync=no", "-cp", &installed()?.server, MAIN]).arg(&file);
    let address = format!("127.0.0.1:{port}");
    let mut process = ServerProcess::start("zookeeper", &mut command, directory)?;
    let version = process.answer(START_TIMEOUT, || version(&address)).await?;
    Ok(StartedServer::new(process, address, version, vec![port]))
}

/// The version of a server that serves. A connection that is made while it starts may never be answered.
async fn version(address: &str) -> Result<String> {
    let answer = timeout(ANSWER_TIMEOUT, ask(address, "srvr")).await??;
    let version = answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
    let version = version
        .filter(|_| answer.contains("Mode: "))
        .ok_or_else(|| format!("it does not serve: {answer}"))?;
    Ok(version.split('-').next().unwrap_or_default().to_owned())
}
