//! [`Curator`]: the locks of Apache Curator, in a Java process of their own.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::{client::SESSION, server::class_paths};
use crate::error::Result;

/// Runs `scripts/zk/Curator.java`. The process ends when this is dropped.
#[derive(Debug)]
pub(super) struct Curator {
    #[expect(dead_code, reason = "only its drop does something")]
    process: Child,
    commands: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
}

/// After so many pairs Java has compiled what it runs.
const WARM_UP: u64 = 3000;

impl Curator {
    /// Starts one that is connected and warm.
    pub(super) async fn start(address: &str) -> Result<Self> {
        let [_, classes] = class_paths()?;
        let mut process = Command::new("java")
            .args(["-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", &classes, "Curator"])
            .args([address, &SESSION.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let commands = process.stdin.take().ok_or("its input is a pipe")?;
        let replies = process.stdout.take().ok_or("its output is a pipe")?;
        let mut curator = Self { process, commands, replies: BufReader::new(replies).lines() };
        curator.reply().await?;
        curator.pairs("/warm", WARM_UP).await?;
        Ok(curator)
    }

    /// How long each of so many pairs of acquire and release took, in nanoseconds, as the Java process measures it.
    pub(super) async fn pairs(&mut self, path: &str, count: u64) -> Result<Vec<u64>> {
        self.commands.write_all(format!("pairs {path} {count}\n").as_bytes()).await?;
        let reply = self.reply().await?;
        reply
            .split(' ')
            .map(|nanos| nanos.parse().map_err(|_| format!("curator says {reply}").into()))
            .collect()
    }

    async fn reply(&mut self) -> Result<String> {
        Ok(self.replies.next_line().await?.ok_or("curator has ended")?)
    }
}
