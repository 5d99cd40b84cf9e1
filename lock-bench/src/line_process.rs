//! [`LineProcess`]: a child process that reads requests from its standard input and writes answers to its standard output, one
//! on each line.

use std::{io, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::error::Result;

/// The process is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct LineProcess {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl LineProcess {
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.expect("both were configured as pipes");
        Ok(Self { process, input, output: BufReader::new(output).lines() })
    }

    /// `None` after the process has ended.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Writes a line, which has no line break yet.
    pub(crate) async fn write_line(&mut self, mut line: String) -> io::Result<()> {
        line.push('\n');
        self.input.write_all(line.as_bytes()).await
    }

    /// The next line. `None` if the process closed its output.
    ///
    /// # Errors
    /// If there is no line within the limit.
    pub(crate) async fn read_line(&mut self, limit: Duration) -> Result<Option<String>> {
        let line = timeout(limit, self.output.next_line()).await;
        Ok(line.map_err(|_| format!("no answer within {} s", limit.as_secs()))??)
    }

    /// Kills the process (`SIGKILL`): it cleans up nothing.
    pub(crate) async fn kill(&mut self) -> io::Result<()> {
        self.process.kill().await
    }
}
