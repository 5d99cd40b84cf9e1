//! [`Worker`]: a task of a client, which takes one lock after another.

use std::{sync::Arc, time::Duration};

use lock_core::{
    AcquireOptions, BootTime, Claim, Clock, DistributedLock, Error, Guard, Kind, Lock, Locks, LostReason,
    Outage, Released, SystemClock, testing::SeededEntropy,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    attempt::Attempt,
    record::{MOVED, What, nanos},
    recorder::Recorder,
};

/// How often the deadline of a guard is read.
const SAMPLE: Duration = Duration::from_millis(20);

/// A store that refuses immediately is not asked again immediately.
const AFTER_FAILURE: Duration = Duration::from_millis(250);

pub(crate) struct Worker {
    pub(crate) locks: Locks,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) entropy: SeededEntropy,
    pub(crate) stop: watch::Receiver<bool>,
}

impl Worker {
    pub(crate) async fn run(self) {
        while !self.is_stopped() {
            let attempt = Attempt::draw(&self.entropy);
            sleep(attempt.pause).await;
            let op = self.recorder.next_op();
            if let Some((guard, until)) = self.acquire(op, &attempt).await {
                self.hold(op, &attempt, guard, until).await;
            }
        }
    }

    fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// The guard, and until when it is good.
    async fn acquire(&self, op: u64, attempt: &Attempt) -> Option<(Guard, BootTime)> {
        let Attempt { name, claim, ttl, wait, .. } = *attempt;
        let permits = (claim.kind(), claim.permits(), claim.limit());
        self.recorder.note(What::Asked { op, name: name.to_owned(), claim: permits, ttl, wait });
        let what = match self.answer(attempt).await {
            Ok(Some(guard)) => {
                // The clock first: the deadline is never taken for later than it is.
                let at = SystemClock.now();
                let until = at + guard.remaining();
                let (token, entry) = (guard.token(), guard.entry_id().to_string());
                self.recorder.note_at(at, What::Granted { op, token, entry, until: nanos(until) });
                return Some((guard, until));
            }
            Ok(None) => What::Refused { op },
            Err(Error::WaitTimeout { .. }) => What::TimedOut { op },
            Err(error) => What::Failed { op, error: error.to_string() },
        };
        let failed = matches!(what, What::Failed { .. });
        self.recorder.note(what);
        if failed {
            sleep(AFTER_FAILURE).await;
        }
        None
    }

    async fn answer(&self, attempt: &Attempt) -> Result<Option<Guard>, Error> {
        let lock = self.lock(attempt.name, attempt.claim)?;
        let options = AcquireOptions::new().ttl(attempt.ttl);
        match attempt.wait {
            None => lock.try_acquire_with(&options).await,
            Some(wait) => lock.acquire_with(&options.wait(wait).outage(Outage::Wait)).await.map(Some),
        }
    }

    async fn hold(&self, op: u64, attempt: &Attempt, guard: Guard, mut until: BootTime) {
        let end = Instant::now() + attempt.hold;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            tokio::select! {
                biased;
                reason = guard.lost() => {
                    let gone = reason == LostReason::Gone;
                    return self.recorder.note(What::Lost { op, gone, until: nanos(until) });
                }
                () = sleep(rest.min(SAMPLE)) => {}
            }
            let known = until;
            let at = SystemClock.now();
            until = until.max(deadline(&guard, at));
            if rest <= SAMPLE {
                return self.give_back(op, attempt, guard, at, until).await;
            }
            if until > known + MOVED {
                self.recorder.note(What::Renewed { op, until: nanos(until) });
            }
        }
    }

    async fn give_back(&self, op: u64, attempt: &Attempt, guard: Guard, at: BootTime, until: BootTime) {
        let dropped = attempt.dropped;
        self.recorder.note_at(at, What::Returned { op, dropped, until: nanos(until) });
        if dropped {
            return drop(guard);
        }
        let confirmed = matches!(guard.release().await, Ok(Released::Confirmed));
        self.recorder.note(What::Released { op, confirmed });
    }

    fn lock(&self, name: &str, claim: Claim) -> Result<Lock, Error> {
        match claim.kind() {
            Kind::Mutex => self.locks.mutex(name),
            Kind::RwLock => {
                let lock = self.locks.rwlock(name)?;
                Ok(if claim == Claim::writer() { lock.write() } else { lock.read() })
            }
            Kind::Semaphore => self.locks.semaphore(name, claim.limit())?.permits(claim.permits()),
        }
    }
}

/// Until when a guard is good, read at `at` or later. A guard that is lost tells no deadline any more.
fn deadline(guard: &Guard, at: BootTime) -> BootTime {
    let remaining = guard.remaining();
    if remaining.is_zero() { BootTime::new(Duration::ZERO) } else { at + remaining }
}
