//! [`WorkerProcess`]: a worker in a process of its own, and [`serve`]: what runs in that process.

use std::{env, time::Duration};

use lock_core::{AcquireOptions, DistributedLock, Guard};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines, Stdin},
    process,
    time::sleep,
};

use crate::{
    drivers::say,
    error::Result,
    line_process::LineProcess,
    store::Store,
    timestamp::Timestamp,
    worker::{Command, Reply, Worker},
};

/// This binary, started once more. The process ends when this is dropped, and when this process ends.
#[derive(Debug)]
pub(crate) struct WorkerProcess(LineProcess);

const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

impl WorkerProcess {
    pub(crate) fn start(store: &dyn Store) -> Result<Self> {
        let address = store.address().ok_or("other processes cannot reach this store")?;
        let mut command = process::Command::new(env::current_exe()?);
        command.args(["worker", "--store", store.kind().name(), "--address", &address]);
        Ok(Self(LineProcess::start(&mut command)?))
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.0.pid().ok_or_else(|| "a worker ended".into())
    }

    pub(crate) async fn ask(&mut self, command: &Command) -> Result<Reply> {
        self.tell(command).await?;
        self.reply().await
    }

    /// Sends a command without waiting for a reply.
    pub(crate) async fn tell(&mut self, command: &Command) -> Result<()> {
        Ok(self.0.write_line(serde_json::to_string(command)?).await?)
    }

    pub(crate) async fn reply(&mut self) -> Result<Reply> {
        let line = self.0.read_line(REPLY_TIMEOUT).await?.ok_or("a worker ended")?;
        serde_json::from_str::<Reply>(&line)?.into_result()
    }

    /// Kills the process (`SIGKILL`): it cleans up nothing.
    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.0.kill().await?)
    }
}

/// Runs in the process: handles commands until its input ends.
pub(crate) async fn serve(mut worker: Worker) -> Result<()> {
    let mut commands: Lines<BufReader<Stdin>> = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = commands.next_line().await? {
        match serde_json::from_str(&line)? {
            Command::Hold { name, ttl } => {
                let options = AcquireOptions::new().ttl(ttl);
                let guard = worker.locks().mutex(&name)?.acquire_with(&options).await?;
                tokio::select! {
                    lost = report_renewals(&guard) => lost?,
                    _ = commands.next_line() => return Ok(()),
                }
            }
            command => say(&worker.handle(command).await).await?,
        }
    }
    Ok(())
}

/// Replies with the deadline of the lease, each time that a renewal moved it.
async fn report_renewals(guard: &Guard) -> Result<()> {
    // The clock is not read in the same moment as what is left of the lease.
    const READING_ERROR: Duration = Duration::from_millis(50);
    let mut known = Timestamp(0);
    while guard.is_held() {
        let deadline = Timestamp::now().plus(guard.remaining());
        if deadline.since(known) > READING_ERROR {
            known = deadline;
            say(&Reply::Renewed(deadline)).await?;
        }
        sleep(Duration::from_millis(2)).await;
    }
    say(&Reply::Failed("the lock was lost".to_owned())).await
}
