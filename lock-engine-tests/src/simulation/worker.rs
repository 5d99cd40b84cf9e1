//! [`Worker`]: one task of a client, which takes one lock after another.

use std::{future::Future, sync::Arc};

use lock_core::{AcquireOptions, DistributedLock, Error, Guard, Kind, Outage, testing::SimClient};
use tokio::time::sleep;

use super::{
    plan::{Attempt, Ending, PlannedLock},
    recorder::Recorder,
    sessions,
};
use crate::history::{AcquireMode, EventKind, GiveBack, Op};

pub(super) struct Worker {
    number: usize,
    client: Arc<SimClient>,
    recorder: Arc<Recorder>,
    locks: Vec<PlannedLock>,
}

impl Worker {
    pub(super) fn new(
        number: usize,
        client: &Arc<SimClient>,
        recorder: &Arc<Recorder>,
        locks: &[PlannedLock],
    ) -> Self {
        Self { number, client: Arc::clone(client), recorder: Arc::clone(recorder), locks: locks.to_vec() }
    }

    /// Makes these attempts, one after another.
    pub(super) async fn run(self, attempts: Vec<Attempt>) {
        for attempt in &attempts {
            sleep(attempt.pause).await;
            let op = self.recorder.next_op();
            if let Some(guard) = self.acquire(op, attempt).await {
                self.hold(op, attempt, guard).await;
            }
        }
    }

    async fn acquire(&self, op: Op, attempt: &Attempt) -> Option<Guard> {
        let name = self.locks[attempt.lock].name.clone();
        let &Attempt { claim, ttl, mode, renew, max_hold, .. } = attempt;
        let lock = self.lock(&name, attempt);
        self.recorder.put(EventKind::Invoked {
            op,
            client: self.number,
            name,
            claim,
            ttl,
            mode,
            renew,
            max_hold,
        });
        let options = options(attempt).label(sessions::label(self.number));
        let acquiring = async {
            match mode {
                AcquireMode::Try => lock.try_acquire_with(&options).await,
                AcquireMode::Wait | AcquireMode::WaitFor(_) => lock.acquire_with(&options).await.map(Some),
            }
        };
        let answer = cancelled_after(attempt, acquiring).await;
        let what = match answer {
            Some(Ok(Some(guard))) => {
                self.recorder.granted(op, self.number, &guard);
                return Some(guard);
            }
            Some(Ok(None)) => EventKind::Refused { op },
            Some(Err(Error::WaitTimeout { .. })) => EventKind::TimedOut { op },
            Some(Err(error)) => EventKind::Failed { op, error: error.to_string() },
            None => EventKind::Cancelled { op },
        };
        self.recorder.put(what);
        None
    }

    async fn hold(&self, op: Op, attempt: &Attempt, guard: Guard) {
        let (recorder, client) = (&self.recorder, &self.client);
        if attempt.end == Ending::Leak {
            let (recorder, watcher, hold) = (Arc::clone(recorder), Arc::clone(client), guard.hold());
            self.recorder.leak(op, guard);
            // The guard is leaked, but its holder goes on working until the lock is lost.
            drop(client.spawn(async move {
                let reason = hold.lost().await;
                recorder.lost(op, &watcher, &hold, reason);
            }));
            return;
        }
        let lost = tokio::select! {
            biased;
            reason = guard.lost() => Some(reason),
            () = sleep(attempt.hold) => None,
        };
        match (lost, attempt.end) {
            (Some(reason), _) => recorder.lost(op, client, &guard.hold(), reason),
            (None, Ending::Release) => {
                recorder.returned(op, client, &guard, GiveBack::Release);
                let release = guard.release().await;
                recorder.released(op, &release);
            }
            (None, _) => {
                recorder.returned(op, client, &guard, GiveBack::Drop);
                drop(guard);
            }
        }
    }

    fn lock(&self, name: &str, attempt: &Attempt) -> Box<dyn DistributedLock> {
        let locks = self.client.locks();
        let claim = attempt.claim;
        let lock = match claim.kind() {
            Kind::Mutex => locks.mutex(name).map(|lock| Box::new(lock) as Box<dyn DistributedLock>),
            Kind::RwLock => locks.rwlock(name).map(|lock| {
                let side = if claim.permits() == claim.limit() { lock.write() } else { lock.read() };
                Box::new(side) as Box<dyn DistributedLock>
            }),
            Kind::Semaphore => locks
                .semaphore(name, claim.limit())
                .and_then(|lock| lock.permits(claim.permits()))
                .map(|lock| Box::new(lock) as Box<dyn DistributedLock>),
        };
        lock.expect("names and claims of a plan are valid")
    }
}

fn options(attempt: &Attempt) -> AcquireOptions {
    let mut options = AcquireOptions::new().ttl(attempt.ttl).renew(attempt.renew);
    options.max_hold = attempt.max_hold;
    options.outage = attempt.patient.then_some(Outage::Wait);
    if let AcquireMode::WaitFor(wait) = attempt.mode {
        options.wait = Some(wait);
    }
    options
}

/// `None` if the future was dropped first.
async fn cancelled_after<T>(attempt: &Attempt, acquiring: impl Future<Output = T> + Send) -> Option<T> {
    match attempt.cancel_after {
        None => Some(acquiring.await),
        Some(after) => tokio::select! {
            biased;
            answer = acquiring => Some(answer),
            () = sleep(after) => None,
        },
    }
}
