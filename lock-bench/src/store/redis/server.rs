//! Starts a server for the benchmark.

use std::{process::Command, time::Duration};

use lock_test_servers::redis::{PROGRAM, arguments};

use super::client::open;
use crate::{
    error::Result,
    store::{port::Port, server_process::ServerProcess, started_server::StartedServer},
};

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts `redis-server`, without persistence: the disk is not what is measured.
pub(super) async fn start() -> Result<StartedServer> {
    let (directory, port) = (tempfile::tempdir()?, Port::reserve());
    let mut command = Command::new(PROGRAM);
    command.args(arguments(port.number(), directory.path())).args(["--appendonly", "no"]);
    let address = format!("127.0.0.1:{port}");
    let client = open(&address)?;
    let mut process = ServerProcess::start(PROGRAM, &mut command, directory)?;
    let own = process.pid();
    let version = process.answer(START_TIMEOUT, || version(&client, own)).await?;
    Ok(StartedServer::new(process, address, version, vec![port]))
}

/// The version of the server that answers, if it is this process.
async fn version(client: &redis::Client, expected: u32) -> Result<String> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    let info: String = redis::cmd("INFO").arg("server").query_async(&mut connection).await?;
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let pid: u32 = field("process_id:").ok_or("the server does not say its process id")?.parse()?;
    if pid != expected {
        return Err("its port belongs to another server".into());
    }
    Ok(field("redis_version:").ok_or("the server does not say its version")?.to_owned())
}
