//! [`Server`]: a server that is started for the benchmark, on a free port of the loopback interface.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::client::TICK;
use crate::{error::Result, store::port::Port};

/// The process ends, and its directory goes, when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    address: String,
    version: String,
    #[expect(dead_code, reason = "only its drop does something")]
    directory: TempDir,
    #[expect(dead_code, reason = "it is kept for as long as the server runs")]
    port: Port,
}

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a server that starts may take to answer one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

impl Server {
    /// Starts a server, which does not wait for the disk: that is not what is measured.
    pub(super) async fn start() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let port = Port::reserve();
        let file = directory.path().join("zoo.cfg");
        let data = directory.path().join("data");
        let settings = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime={}\nmaxSessionTimeout=100000000\n\
             maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
            data.display(),
            TICK.as_millis()
        );
        fs::write(&file, settings)?;
        let process = Command::new("java")
            .args(["-Xmx512m", "-Dzookeeper.forceSync=no", "-cp", &class_paths()?[0], MAIN])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("java: {error}; scripts/setup gets it, and a ZooKeeper"))?;
        let address = format!("127.0.0.1:{port}");
        let mut server = Self { process, address, version: String::new(), directory, port };
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
                return Err(format!("zookeeper ended at its start: {status}").into());
            }
            let answer = status(&self.address).await.unwrap_or_default();
            let version = answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
            if let Some(version) = version.filter(|_| answer.contains("Mode: ")) {
                return Ok(version.split('-').next().unwrap_or_default().to_owned());
            }
            if started.elapsed() > START_TIMEOUT {
                return Err(format!("zookeeper does not serve: {answer}").into());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The class paths that `scripts/setup` installed: that of the server, and that of our Java programs.
pub(super) fn class_paths() -> Result<[String; 2]> {
    let setup = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/zk/setup");
    let printed = Command::new(setup).arg("--print").output().map_err(|error| format!("{setup}: {error}"))?;
    let printed = String::from_utf8(printed.stdout)?;
    let mut lines = printed.lines().map(str::to_owned);
    let paths = lines.next().zip(lines.next()).ok_or("scripts/zk/setup does not print its class paths")?;
    Ok(paths.into())
}

/// A connection that is made while the server starts may never be answered.
async fn status(address: &str) -> Result<String> {
    timeout(ANSWER_TIMEOUT, ask(address, "srvr")).await?
}

async fn ask(address: &str, word: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(word.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
