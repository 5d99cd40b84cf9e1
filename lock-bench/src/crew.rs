//! [`Crew`]: the members that measure something together, and how they are spoken to.

use std::{process::Stdio, sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use lock_core::{AcquireOptions, DistributedLock, Guard};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin, Stdout},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{sleep, timeout},
};

use crate::{
    Result,
    counted::Counted,
    member::{Member, Order, Reply},
    nanos::Nanos,
    store::Store,
};

/// Members in this process or in others.
#[derive(Debug)]
pub(crate) struct Crew(Vec<Hand>);

#[derive(Debug)]
enum Hand {
    Here(Box<Member>),
    There(Box<Worker>),
}

/// A member in a process of its own: this binary, started once more. It ends when this is dropped, or this process ends.
#[derive(Debug)]
pub(crate) struct Worker {
    process: Child,
    orders: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
}

const PATIENCE: Duration = Duration::from_secs(60);

impl Crew {
    pub(crate) fn here(store: Arc<dyn Store>, counted: Counted) -> Self {
        Self(vec![Hand::Here(Box::new(Member::new(store, counted)))])
    }

    /// # Errors
    /// If other processes cannot be started, or cannot reach the store.
    pub(crate) fn there(store: &dyn Store, size: usize) -> Result<Self> {
        let hands = (0..size).map(|_| Worker::start(store).map(|worker| Hand::There(Box::new(worker))));
        hands.collect::<Result<_>>().map(Self)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Gives an order to one of them.
    pub(crate) async fn tell(&mut self, number: usize, order: Order) -> Result<Reply> {
        let size = self.0.len();
        self.0[number % size].tell(order).await
    }

    /// Gives each an order of its own, all at once.
    pub(crate) async fn tell_all(&mut self, order: impl Fn(usize) -> Order) -> Result<Vec<Reply>> {
        try_join_all(self.0.iter_mut().enumerate().map(|(i, hand)| hand.tell(order(i)))).await
    }
}

impl Hand {
    async fn tell(&mut self, order: Order) -> Result<Reply> {
        let reply = match self {
            Self::Here(member) => member.obey(order).await,
            Self::There(worker) => {
                worker.tell(&order).await?;
                worker.reply().await?
            }
        };
        match reply {
            Reply::Failed(why) => Err(why.into()),
            reply => Ok(reply),
        }
    }
}

impl Worker {
    pub(crate) fn start(store: &dyn Store) -> Result<Self> {
        let address = store.address().ok_or("other processes cannot reach this store")?;
        let mut process = Command::new(std::env::current_exe()?)
            .args(["worker", "--store", store.kind().name(), "--address", &address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let orders = process.stdin.take().ok_or("a worker has no input")?;
        let output = process.stdout.take().ok_or("a worker has no output")?;
        Ok(Self { process, orders, replies: BufReader::new(output).lines() })
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.process.id().ok_or_else(|| "a worker ended".into())
    }

    pub(crate) async fn tell(&mut self, order: &Order) -> Result<()> {
        let line = serde_json::to_string(order)? + "\n";
        Ok(self.orders.write_all(line.as_bytes()).await?)
    }

    pub(crate) async fn reply(&mut self) -> Result<Reply> {
        let line =
            timeout(PATIENCE, self.replies.next_line()).await.map_err(|_| "a worker does not reply")?;
        Ok(serde_json::from_str(&line?.ok_or("a worker ended")?)?)
    }

    /// Ends it at once (`SIGKILL`): nothing is cleaned up.
    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }
}

/// What a worker does: obeys, until its input ends.
pub(crate) async fn serve(mut member: Member) -> Result<()> {
    let mut orders: Lines<BufReader<Stdin>> = BufReader::new(tokio::io::stdin()).lines();
    let mut output = tokio::io::stdout();
    while let Some(line) = orders.next_line().await? {
        match serde_json::from_str(&line)? {
            Order::Hold { name, ttl } => {
                let options = AcquireOptions::new().ttl(ttl);
                let guard = member.locks().mutex(&name)?.acquire_with(&options).await?;
                tokio::select! {
                    told = tell_proofs(&guard, &mut output) => told?,
                    _ = orders.next_line() => return Ok(()),
                }
            }
            order => say(&mut output, &member.obey(order).await).await?,
        }
    }
    Ok(())
}

/// Says until when the lease is good, each time that it was proved anew.
async fn tell_proofs(guard: &Guard, output: &mut Stdout) -> Result<()> {
    // What is left and the clock are not read in the same moment.
    const BLUR: Duration = Duration::from_millis(50);
    let mut known = Nanos(0);
    while guard.is_held() {
        let deadline = Nanos::now().plus(guard.remaining());
        if deadline.since(known) > BLUR {
            known = deadline;
            say(output, &Reply::Proved(deadline)).await?;
        }
        sleep(Duration::from_millis(2)).await;
    }
    say(output, &Reply::Failed("the lock was lost".to_owned())).await
}

async fn say(output: &mut Stdout, reply: &Reply) -> Result<()> {
    let line = serde_json::to_string(reply)? + "\n";
    output.write_all(line.as_bytes()).await?;
    Ok(output.flush().await?)
}
