//! [`Contenders`]: tasks that take one mutex again and again.

use std::{cell::Cell, time::Duration};

use lock_core::{AcquireOptions, DistributedLock, Lock, Locks};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    counting_backend::{CountingBackend, WAITED},
    error::Result,
    timestamp::Timestamp,
};

/// The contenders in this process. Other processes may have contenders for the same mutex.
#[derive(Debug)]
pub(crate) struct Contenders {
    mutex: Lock,
    backend: CountingBackend,
    /// Entries that the backend had counted before the first contender.
    earlier_entries: u64,
    phase: watch::Sender<Phase>,
    grants: mpsc::UnboundedReceiver<Grant>,
    record: mpsc::UnboundedSender<Grant>,
    tasks: JoinSet<Result<()>>,
}

/// What the contenders do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The holder keeps the lock.
    Pause,
    /// The holder keeps the lock for so long, releases it, and queues again after a third of that time: the requests of
    /// its next acquire are not part of the hand-off, and must not delay it.
    Run { hold: Duration },
    /// Each holder releases the lock and ends.
    Finish,
}

/// One time that the mutex was held.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) token: u64,
    /// Whether the holder waited in the queue. Otherwise the lock was free when it asked.
    pub(crate) handed: bool,
    /// When `acquire` returned.
    pub(crate) granted: Timestamp,
    /// When `release` was called.
    pub(crate) released: Timestamp,
}

/// Longer than any benchmark, so that no renewal is measured and a lost hint does not look like a slow one.
pub(crate) const TTL: Duration = Duration::from_secs(60 * 60);

/// How long a contender may take to queue, or to end.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

impl Contenders {
    pub(crate) fn new(backend: &CountingBackend, locks: &Locks, name: &str) -> Result<Self> {
        let (record, grants) = mpsc::unbounded_channel();
        let counts = backend.counts();
        Ok(Self {
            mutex: locks.mutex(name)?,
            backend: backend.clone(),
            earlier_entries: counts.admitted + counts.waiting,
            phase: watch::Sender::new(Phase::Pause),
            grants,
            record,
            tasks: JoinSet::new(),
        })
    }

    /// Adds a contender, and waits until it has its place in the queue. Only while the contenders pause.
    pub(crate) async fn join(&mut self) -> Result<()> {
        let contender = Contender {
            mutex: self.mutex.clone(),
            phase: self.phase.subscribe(),
            record: self.record.clone(),
        };
        self.tasks.spawn(WAITED.scope(Cell::new(false), contender.run()));
        let entries = self.earlier_entries + self.tasks.len() as u64;
        let queued = timeout(STEP_TIMEOUT, self.backend.wait_for_entries(entries)).await;
        queued.map_err(|_| "a contender did not get its place in the queue".into())
    }

    /// Lets the contenders take the lock in turn for so long, and returns the grants that ended meanwhile.
    pub(crate) async fn run(&mut self, hold: Duration, length: Duration) -> Result<Vec<Grant>> {
        self.phase.send_replace(Phase::Run { hold });
        sleep(length).await;
        self.phase.send_replace(Phase::Pause);
        if let Some(ended) = self.tasks.try_join_next() {
            ended??;
            return Err("a contender went away".into());
        }
        Ok(std::iter::from_fn(|| self.grants.try_recv().ok()).collect())
    }

    /// Lets each contender take the lock once more, and end.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.phase.send_replace(Phase::Finish);
        let ended = async {
            while let Some(ended) = self.tasks.join_next().await {
                ended??;
            }
            Ok(())
        };
        timeout(STEP_TIMEOUT, ended).await.map_err(|_| "contenders were forgotten in the queue")?
    }
}

struct Contender {
    mutex: Lock,
    phase: watch::Receiver<Phase>,
    record: mpsc::UnboundedSender<Grant>,
}

impl Contender {
    async fn run(mut self) -> Result<()> {
        let options = AcquireOptions::new().ttl(TTL);
        loop {
            let guard = self.mutex.acquire_with(&options).await?;
            let granted = Timestamp::now();
            let token = guard.token().get();
            let handed = WAITED.with(Cell::get);
            let last = self.keep().await?;
            let released = Timestamp::now();
            guard.release().await?.confirmed()?;
            // At the end the receiver is gone.
            let _ = self.record.send(Grant { token, handed, granted, released });
            if last {
                return Ok(());
            }
            self.back_off().await;
        }
    }

    async fn back_off(&self) {
        let phase = *self.phase.borrow();
        if let Phase::Run { hold } = phase
            && !hold.is_zero()
        {
            sleep(hold / 3).await;
        }
    }

    /// Waits until it is time to release the lock. True if this was the last time.
    async fn keep(&mut self) -> Result<bool> {
        loop {
            let phase = *self.phase.wait_for(|phase| *phase != Phase::Pause).await?;
            match phase {
                Phase::Finish => return Ok(true),
                Phase::Run { hold: Duration::ZERO } => return Ok(false),
                Phase::Run { hold } => sleep(hold).await,
                Phase::Pause => {}
            }
            if *self.phase.borrow() == phase {
                return Ok(false);
            }
        }
    }
}
