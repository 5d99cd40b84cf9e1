//! [`Peer`]: a driver that runs.

use std::{
    io::{Read, Seek, SeekFrom},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::protocol::{Hello, Kind, Order, Reply};
use crate::Result;

/// It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    process: Child,
    orders: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
    complaints: std::fs::File,
    pub(crate) version: String,
    pub(crate) kinds: Vec<Kind>,
}

/// A virtual machine takes its time to start, on a busy one.
const START: Duration = Duration::from_secs(30);

impl Peer {
    /// Starts it, and waits until it is connected.
    ///
    /// # Errors
    /// The reason that it gives, or what it wrote last to its standard error.
    pub(crate) async fn start(command: &[String]) -> Result<Self> {
        let [program, arguments @ ..] = command else { return Err("nothing to start".into()) };
        let complaints = tempfile::tempfile()?;
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints.try_clone()?)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("its driver could not be started: {error}"))?;
        let (orders, replies) = (process.stdin.take(), process.stdout.take());
        let (orders, replies) = orders.zip(replies).ok_or("a driver without pipes")?;
        let replies = BufReader::new(replies).lines();
        let (version, kinds) = (String::new(), Vec::new());
        let mut peer = Self { process, orders, replies, complaints, version, kinds };
        match peer.line(START).await? {
            Hello::Ready { version, kinds } => Ok(Self { version, kinds, ..peer }),
            Hello::Failed(reason) => Err(reason.into()),
        }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// # Errors
    /// What the driver answers if it fails, or that it did not answer in time.
    pub(crate) async fn ask(&mut self, order: &Order, patience: Duration) -> Result<Reply> {
        self.tell(order).await?;
        self.reply(patience).await
    }

    /// Without waiting for the answer.
    pub(crate) async fn tell(&mut self, order: &Order) -> Result<()> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        self.orders.write_all(&line).await.map_err(|error| format!("its driver is gone: {error}"))?;
        Ok(())
    }

    pub(crate) async fn reply(&mut self, patience: Duration) -> Result<Reply> {
        match self.line(patience).await? {
            Reply::Failed(reason) => Err(reason.into()),
            reply => Ok(reply),
        }
    }

    /// As `kill -9` does.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }

    async fn line<T: serde::de::DeserializeOwned>(&mut self, patience: Duration) -> Result<T> {
        let line = timeout(patience, self.replies.next_line()).await;
        let line = line.map_err(|_| format!("no answer within {} s", patience.as_secs()))??;
        let Some(line) = line else { return Err(self.last_words().into()) };
        Ok(serde_json::from_str(&line).map_err(|error| format!("its driver said {line:?}: {error}"))?)
    }

    fn last_words(&mut self) -> String {
        let mut said = String::new();
        let read =
            self.complaints.seek(SeekFrom::Start(0)).and_then(|_| self.complaints.read_to_string(&mut said));
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("without a word");
        if read.is_ok() { format!("its driver ended: {last}") } else { "its driver ended".to_owned() }
    }
}
