//! [`Ring`]: contenders of one mutex, each of which stands in its queue again as soon as it gave it back.

use std::{cell::Cell, time::Duration};

use lock_core::{AcquireOptions, DistributedLock, Lock, Locks};
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    Result,
    counted::{Counted, WAITED},
    nanos::Nanos,
};

/// Contenders of one mutex in this process. Other processes may have a ring on the same mutex.
#[derive(Debug)]
pub(crate) struct Ring {
    mutex: Lock,
    counted: Counted,
    /// Enters that were answered when it began.
    others: u64,
    phase: watch::Sender<Phase>,
    grants: mpsc::UnboundedReceiver<Grant>,
    record: mpsc::UnboundedSender<Grant>,
    contenders: JoinSet<Result<()>>,
}

/// What the contenders do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Whoever has the lock keeps it.
    Pause,
    /// Whoever has the lock keeps it for a while, gives it back, and stands in the queue again after a third of that
    /// while: what it sends then is no part of the hand-off, and must not stand in its way.
    Turn { hold: Duration },
    /// Whoever has the lock gives it back, and goes.
    Disband,
}

/// One time that the mutex was held.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) token: u64,
    /// Whether the holder stood in the queue. Otherwise it asked and found the lock free.
    pub(crate) handed: bool,
    /// When `acquire` had returned.
    pub(crate) granted: Nanos,
    /// When `release` was called.
    pub(crate) released: Nanos,
}

/// Longer than any benchmark: no heart-beat falls into it, and a lost hint does not look like a slow one.
pub(crate) const TTL: Duration = Duration::from_secs(60 * 60);

const PATIENCE: Duration = Duration::from_secs(30);

impl Ring {
    pub(crate) fn new(counted: &Counted, locks: &Locks, name: &str) -> Result<Self> {
        let (record, grants) = mpsc::unbounded_channel();
        let verbs = counted.verbs();
        Ok(Self {
            mutex: locks.mutex(name)?,
            counted: counted.clone(),
            others: verbs.admitted + verbs.waiting,
            phase: watch::Sender::new(Phase::Pause),
            grants,
            record,
            contenders: JoinSet::new(),
        })
    }

    /// One more contender, which has its place when this returns. Only while nobody turns.
    pub(crate) async fn join(&mut self) -> Result<()> {
        let contender = Contender {
            mutex: self.mutex.clone(),
            phase: self.phase.subscribe(),
            record: self.record.clone(),
        };
        self.contenders.spawn(WAITED.scope(Cell::new(false), contender.run()));
        let all = self.others + self.contenders.len() as u64;
        let stands = timeout(PATIENCE, self.counted.stand(all)).await;
        stands.map_err(|_| "a contender did not get its place in the queue".into())
    }

    /// Lets the lock go round for so long, and gives what was granted and given back meanwhile.
    pub(crate) async fn turn(&mut self, hold: Duration, length: Duration) -> Result<Vec<Grant>> {
        self.phase.send_replace(Phase::Turn { hold });
        sleep(length).await;
        self.phase.send_replace(Phase::Pause);
        if let Some(ended) = self.contenders.try_join_next() {
            ended??;
            return Err("a contender went away".into());
        }
        Ok(std::iter::from_fn(|| self.grants.try_recv().ok()).collect())
    }

    /// Lets everybody have the lock once more, and go.
    pub(crate) async fn disband(mut self) -> Result<()> {
        self.phase.send_replace(Phase::Disband);
        let gone = async {
            while let Some(ended) = self.contenders.join_next().await {
                ended??;
            }
            Ok(())
        };
        timeout(PATIENCE, gone).await.map_err(|_| "contenders were forgotten in the queue")?
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
            let granted = Nanos::now();
            let token = guard.token().get();
            let handed = WAITED.with(Cell::get);
            let last = self.keep().await?;
            let released = Nanos::now();
            guard.release().await?.confirmed()?;
            // Nobody wants to know any more when the ring is over.
            let _ = self.record.send(Grant { token, handed, granted, released });
            if last {
                return Ok(());
            }
            self.stand_back().await;
        }
    }

    async fn stand_back(&self) {
        let phase = *self.phase.borrow();
        if let Phase::Turn { hold } = phase
            && !hold.is_zero()
        {
            sleep(hold / 3).await;
        }
    }

    /// Until it is time to give the lock back. True if it is for the last time.
    async fn keep(&mut self) -> Result<bool> {
        loop {
            let phase = *self.phase.wait_for(|phase| *phase != Phase::Pause).await?;
            match phase {
                Phase::Disband => return Ok(true),
                Phase::Turn { hold: Duration::ZERO } => return Ok(false),
                Phase::Turn { hold } => sleep(hold).await,
                Phase::Pause => {}
            }
            if *self.phase.borrow() == phase {
                return Ok(false);
            }
        }
    }
}
