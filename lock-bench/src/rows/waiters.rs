//! `waiters`: very many waiters for one mutex in one process. Each looks at the queue several times before it gets the lock.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use lock_core::{AcquireOptions, DistributedLock, Error, FencingToken, Lock, Released};
use tokio::{sync::mpsc, task::JoinSet, time::sleep};

use super::{Bench, Bound, Measurement, Outcome, RowFigures, RowSpec};
use crate::{counting_backend::CountingBackend, error::Result, store::StoreKind};

pub(super) struct Waiters;

const WAITERS: u64 = 10_000;

/// How long each holder keeps the lock: together longer than 10 s, after which a waiter looks at the queue again.
const HOLD: Duration = Duration::from_millis(1);

/// How long a waiter waits before it gives up.
const WAIT: Duration = Duration::from_secs(150);

#[async_trait]
impl Measurement for Waiters {
    fn rows(&self, _: StoreKind) -> Vec<RowSpec> {
        let none = |row: &str| RowSpec::new(name(row), "waiters").bound(Bound::ValueAtMost(0.0));
        vec![
            none("timed-out"),
            none("overtaken"),
            RowSpec::new(name("join"), "waiters/s"),
            RowSpec::new(name("served"), "s"),
        ]
    }

    fn is_quick(&self) -> bool {
        false
    }

    async fn run(&self, bench: &Bench) -> Result<Outcome> {
        eprintln!("{}", name("served"));
        let backend = CountingBackend::new(bench.store.backend()?);
        let mutex = backend.locks().mutex("bench:waiters")?;
        let holder = mutex.acquire().await?;

        let started = Instant::now();
        let (grants, mut granted) = mpsc::unbounded_channel();
        let mut queue: JoinSet<_> = (0..WAITERS).map(|_| take_turn(mutex.clone(), grants.clone())).collect();
        backend.wait_for_entries(1 + WAITERS).await;
        let joined = started.elapsed();
        if mutex.queue().await?.len() as u64 != 1 + WAITERS {
            return Err("some looked twice before all stood in the queue".into());
        }

        let started = Instant::now();
        let mut tokens = vec![holder.token()];
        holder.release().await?;
        let mut timed_out = 0.0;
        while let Some(turn) = queue.join_next().await {
            match turn? {
                Ok(released) => released.confirmed()?,
                Err(Error::WaitTimeout { .. }) => timed_out += 1.0,
                Err(error) => return Err(error.into()),
            }
        }
        let served = started.elapsed();
        // Each token is sent while the lock is held, so that they arrive in the order of the grants; they grow in the order of the queue.
        tokens.extend(std::iter::from_fn(|| granted.try_recv().ok()));
        let overtaken = tokens.windows(2).filter(|pair| pair[1] < pair[0]).count();
        let mut figures = RowFigures::default();
        figures.value(name("timed-out"), timed_out, None);
        figures.value(name("overtaken"), overtaken as f64, None);
        figures.value(name("join"), WAITERS as f64 / joined.as_secs_f64(), None);
        figures.value(name("served"), served.as_secs_f64(), None);
        Ok(Outcome::Measured(figures))
    }
}

async fn take_turn(mutex: Lock, grants: mpsc::UnboundedSender<FencingToken>) -> Result<Released, Error> {
    let guard = mutex.acquire_with(&AcquireOptions::new().wait(WAIT)).await?;
    // The receiver lives until all waiters have ended.
    let _ = grants.send(guard.token());
    sleep(HOLD).await;
    guard.release().await
}

fn name(row: &str) -> String {
    format!("waiters.{WAITERS}.{row}")
}
