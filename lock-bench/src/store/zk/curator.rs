//! [`Curator`]: the locks of Apache Curator, in a Java process of their own.

use std::time::Duration;

use lock_test_servers::zookeeper::installed;
use tokio::process::Command;

use super::client::SESSION;
use crate::{error::Result, line_process::LineProcess};

/// Runs `scripts/zk/Curator.java`. The process ends when this is dropped.
#[derive(Debug)]
pub(super) struct Curator(LineProcess);

const REPLY_TIMEOUT: Duration = Duration::from_secs(120);

/// After so many pairs Java has compiled what it runs.
const WARM_UP: u64 = 3000;

impl Curator {
    /// Starts one that is connected and warm.
    pub(super) async fn start(address: &str) -> Result<Self> {
        let classes = installed()?.clients;
        let mut command = Command::new("java");
        command
            .args(["-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", &classes, "Curator"])
            .args([address, &SESSION.as_millis().to_string()]);
        let mut curator = Self(LineProcess::start(&mut command)?);
        curator.reply().await?;
        curator.pairs("/warm", WARM_UP).await?;
        Ok(curator)
    }

    /// How long each of so many pairs of acquire and release took, in nanoseconds, as the Java process measures it.
    pub(super) async fn pairs(&mut self, path: &str, count: u64) -> Result<Vec<u64>> {
        self.0.write_line(format!("pairs {path} {count}")).await?;
        let reply = self.reply().await?;
        reply
            .split(' ')
            .map(|nanos| nanos.parse().map_err(|_| format!("curator says {reply}").into()))
            .collect()
    }

    async fn reply(&mut self) -> Result<String> {
        Ok(self.0.read_line(REPLY_TIMEOUT).await?.ok_or("curator has ended")?)
    }
}
