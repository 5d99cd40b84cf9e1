//! Starts a server for the benchmark.

use std::{process::Command, time::Duration};

use lock_test_servers::{
    etcd::{alone, arguments, installed},
    http_get,
};

use super::client::connect;
use crate::{
    error::Result,
    store::{CommandCounts, port::Port, server_process::ServerProcess, started_server::StartedServer},
};

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts `etcd`, which does not wait for the disk: that is not what is measured.
pub(super) async fn start() -> Result<StartedServer> {
    const NAME: &str = "bench";
    let (directory, ports) = (tempfile::tempdir()?, [(); 2].map(|()| Port::reserve()));
    let [client, peer] = ports.each_ref().map(Port::number);
    let mut command = Command::new(installed()?);
    command.args(arguments(NAME, directory.path(), "http", client, peer)).args(alone(NAME, peer)).args([
        "--unsafe-no-fsync",
        "--logger=zap",
        "--log-level=error",
    ]);
    let address = format!("127.0.0.1:{client}");
    let mut process = ServerProcess::start("etcd", &mut command, directory)?;
    let version = process.answer(START_TIMEOUT, || version(&address)).await?;
    Ok(StartedServer::new(process, address, version, ports.into()))
}

/// The version of a server that has a leader.
async fn version(address: &str) -> Result<String> {
    let mut client = connect(address).await?;
    client.get("ping", None).await?;
    Ok(client.status().await?.version().to_owned())
}

/// What the server counts: requests, and beside them messages on streams of watches.
pub(super) async fn command_counts(address: &str) -> Result<CommandCounts> {
    count(&http_get(address, "/metrics").await?)
}

/// Lines such as `grpc_server_msg_received_total{grpc_method="Txn",grpc_service="etcdserverpb.KV",…} 12`.
fn count(metrics: &str) -> Result<CommandCounts> {
    let mut commands = CommandCounts::default();
    let mut found = false;
    for line in metrics.lines().filter_map(|line| line.strip_prefix("grpc_server_msg_received_total{")) {
        found = true;
        let count: u64 = line.rsplit(' ').next().unwrap_or_default().parse()?;
        if line.contains("grpc_service=\"etcdserverpb.KV\"") {
            commands.sent += count;
        } else if line.contains("grpc_service=\"etcdserverpb.Watch\"") {
            commands.inside += count;
        }
    }
    if found { Ok(commands) } else { Err("the server does not count its requests".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_apart_from_messages_on_streams() {
        let line = |service: &str, count: u32| {
            format!(
                "grpc_server_msg_received_total{{grpc_method=\"M\",grpc_service=\"{service}\",grpc_type=\"t\"}} {count}\n"
            )
        };
        let text = [line("etcdserverpb.KV", 3), line("etcdserverpb.KV", 4), line("etcdserverpb.Watch", 5)]
            .concat()
            + &line("etcdserverpb.Lease", 6);
        assert_eq!(count(&text).unwrap(), CommandCounts { sent: 7, inside: 5 });
        assert!(count("").is_err());
    }
}
