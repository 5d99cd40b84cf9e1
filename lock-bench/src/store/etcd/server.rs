//! [`Server`]: a server that is started for the benchmark, on a free port of the loopback interface.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

use super::client::connect;
use crate::{
    error::Result,
    store::{CommandCounts, port::Port},
};

/// The process ends, and its directory goes, when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    address: String,
    version: String,
    #[expect(dead_code, reason = "only its drop does something")]
    directory: TempDir,
    #[expect(dead_code, reason = "they are kept for as long as it runs")]
    ports: [Port; 2],
}

const START_TIMEOUT: Duration = Duration::from_secs(10);

impl Server {
    /// Starts `etcd`, which does not wait for the disk: that is not what is measured.
    pub(super) async fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let ports = [(); 2].map(|()| Port::reserve());
        let address = format!("127.0.0.1:{}", ports[0]);
        let peer_url = format!("http://127.0.0.1:{}", ports[1]);
        let binary = binary()?;
        let process = Command::new(&binary)
            .args([format!("--data-dir={}", directory.path().display()), "--name=bench".to_owned()])
            .args([format!("--listen-client-urls=http://{address}")])
            .args([format!("--advertise-client-urls=http://{address}")])
            .args([format!("--listen-peer-urls={peer_url}")])
            .args([format!("--initial-advertise-peer-urls={peer_url}")])
            .args([format!("--initial-cluster=bench={peer_url}")])
            .args(["--unsafe-no-fsync", "--logger=zap", "--log-level=error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}; scripts/setup gets an etcd server", binary.display()))?;
        let mut server = Self { process, address, version: String::new(), directory, ports };
        server.version = server.wait_until_it_answers().await?;
        Ok(server)
    }

    /// `host:port`.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    async fn wait_until_it_answers(&mut self) -> Result<String> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Err(format!("etcd ended at its start: {status}").into());
            }
            match version(&self.address).await {
                Ok(version) => return Ok(version),
                Err(error) if started.elapsed() > START_TIMEOUT => {
                    return Err(format!("etcd does not answer: {error}").into());
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

/// Of a server that has a leader.
async fn version(address: &str) -> Result<String> {
    let mut client = connect(address).await?;
    client.get("ping", None).await?;
    Ok(client.status().await?.version().to_owned())
}

/// The program that `scripts/setup` installed.
fn binary() -> Result<PathBuf> {
    let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/etcd/setup");
    let printed = Command::new(setup).arg("--print").output().map_err(|error| format!("{setup}: {error}"))?;
    let printed = String::from_utf8(printed.stdout)?;
    Ok(printed.lines().next().unwrap_or_default().into())
}

/// What the server counts: requests, and beside them messages on streams of watches.
pub(super) async fn command_counts(address: &str) -> Result<CommandCounts> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    count(&text)
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

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already; there is nothing to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
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
