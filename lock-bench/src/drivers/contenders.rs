//! [`Contenders`]: tasks that take one mutex again and again.

use std::{cell::Cell, time::Duration};

use lock_core::{AcquireOptions, DistributedLock, Lock};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{driver::now, protocol::Tenure};
use crate::{
    counting_backend::{CountingBackend, WAITED},
    error::Result,
    store::Store,
};

/// The contenders in this process. Other processes may have contenders for the same mutex.
#[derive(Debug)]
pub(super) struct Contenders {
    mutex: Lock,
    /// Of no other locks than this mutex.
    backend: CountingBackend,
    phase: watch::Sender<Phase>,
    tenures: mpsc::UnboundedReceiver<Tenure>,
    record: mpsc::UnboundedSender<Tenure>,
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

/// Longer than any benchmark, so that no renewal is measured and a lost hint does not look like a slow one.
pub(crate) const LONG_TTL: Duration = Duration::from_secs(60 * 60);

/// How long a contender may take to queue, or to end.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

impl Contenders {
    pub(super) fn new(store: &dyn Store, name: &str) -> Result<Self> {
        let backend = CountingBackend::new(store.backend()?);
        let (record, tenures) = mpsc::unbounded_channel();
        Ok(Self {
            mutex: backend.locks().mutex(name)?,
            backend,
            phase: watch::Sender::new(Phase::Pause),
            tenures,
            record,
            tasks: JoinSet::new(),
        })
    }

    /// Adds a contender, and waits until it has its place in the queue. Only while the contenders pause.
    pub(super) async fn join(&mut self) -> Result<()> {
        let contender = Contender {
            mutex: self.mutex.clone(),
            phase: self.phase.subscribe(),
            record: self.record.clone(),
        };
        self.tasks.spawn(WAITED.scope(Cell::new(false), contender.run()));
        let entries = self.tasks.len() as u64;
        let queued = timeout(STEP_TIMEOUT, self.backend.wait_for_entries(entries)).await;
        queued.map_err(|_| "a contender did not get its place in the queue".into())
    }

    /// Lets the contenders take the lock in turn for so long, and returns the tenures that ended meanwhile.
    pub(super) async fn run(&mut self, hold: Duration, length: Duration) -> Result<Vec<Tenure>> {
        self.phase.send_replace(Phase::Run { hold });
        sleep(length).await;
        self.phase.send_replace(Phase::Pause);
        if let Some(ended) = self.tasks.try_join_next() {
            ended??;
            return Err("a contender went away".into());
        }
        Ok(std::iter::from_fn(|| self.tenures.try_recv().ok()).collect())
    }

    /// Lets each contender take the lock once more, and end.
    pub(super) async fn finish(mut self) -> Result<()> {
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
    record: mpsc::UnboundedSender<Tenure>,
}

impl Contender {
    async fn run(mut self) -> Result<()> {
        let options = AcquireOptions::new().ttl(LONG_TTL);
        loop {
            let guard = self.mutex.acquire_with(&options).await?;
            let granted_ns = now();
            let token = guard.token().get();
            let handed = WAITED.with(Cell::get);
            let last = self.keep().await?;
            let released_ns = now();
            guard.release().await?.confirmed()?;
            // At the end the receiver is gone.
            let _ = self.record.send(Tenure { token, handed, granted_ns, released_ns });
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
