//! [`drive`]: this binary as a driver, of our locks or of a floor.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lock_core::{AcquireOptions, DistributedLock, Guard, Keeper, Locks as Ours, SystemEntropy};
use tokio::{task::JoinSet, time::sleep};

use super::{
    args::{DriverArgs, FLOOR},
    contest::PERMITS,
    driver::{Driver, Lock, Locks, Role, System, now, serve},
    protocol::{Contend, Hello, Kind, Order, Pairs, Reply},
};
use crate::{
    Result,
    samples::Samples,
    store::{self, ForwardingRound, Store, StoreKind},
    timestamp::Timestamp,
    uncontended::Stop,
};

/// Until the standard input ends.
pub(crate) async fn drive(args: &DriverArgs) -> Result<()> {
    // Everybody else is told only where the server is.
    let address = if args.store == StoreKind::Redis {
        format!("redis://{}/", args.address)
    } else {
        args.address.clone()
    };
    let store = store::connect(args.store, &address)?;
    let ready = |kinds: &[Kind]| Hello::Ready {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kinds: kinds.to_vec(),
    };
    if args.system == FLOOR {
        return serve(ready(&[Kind::Mutex]), Floor(store)).await;
    }
    let options = AcquireOptions::new().ttl(args.ttl());
    let locks = Ours::with(store.backend()?, Keeper::shared(), Arc::new(SystemEntropy)).with_options(options);
    serve(ready(&[Kind::Mutex, Kind::Rw, Kind::Semaphore]), Locks::new(Distlock(locks))).await
}

struct Distlock(Ours);

#[async_trait]
impl System for Distlock {
    async fn lock(&self, name: &str, role: Role) -> Result<Box<dyn Lock>> {
        let lock: Arc<dyn DistributedLock> = match role {
            Role::Mutex => Arc::new(self.0.mutex(name)?),
            Role::Read => Arc::new(self.0.rwlock(name)?.read()),
            Role::Write => Arc::new(self.0.rwlock(name)?.write()),
            Role::Permit => Arc::new(self.0.semaphore(name, u32::try_from(PERMITS)?)?.permits(1)?),
        };
        Ok(Box::new(One { lock, guard: None }))
    }
}

struct One {
    lock: Arc<dyn DistributedLock>,
    guard: Option<Guard>,
}

#[async_trait]
impl Lock for One {
    async fn acquire(&mut self) -> Result<()> {
        self.guard = Some(self.lock.acquire().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<bool> {
        let guard = self.guard.take().ok_or("not held")?;
        Ok(guard.release().await?.confirmed().is_ok())
    }
}

/// What the store does without locks.
struct Floor(Box<dyn Store>);

#[async_trait]
impl Driver for Floor {
    async fn obey(&mut self, order: Order) -> Result<Reply> {
        match order {
            Order::Pairs(order) => self.pairs(&order).await,
            Order::Contend(order) => self.pass_on(&order).await,
            Order::GiveBack {} => Ok(Reply::Done { lost: 0 }),
            Order::Hold { .. } | Order::Keep { .. } => Err("a floor has no locks".into()),
        }
    }
}

impl Floor {
    async fn pairs(&self, order: &Pairs) -> Result<Reply> {
        let floors = self.0.floors().await?.ok_or("this store has no floor")?;
        let started = Instant::now();
        let stop = match order.count {
            0 => Stop::At(started + Duration::from_millis(order.run_ms)),
            count => Stop::After(count),
        };
        let mut running = JoinSet::new();
        for task in 0..order.tasks {
            let (floors, name) = (Arc::clone(&floors), format!("{}-{task}", order.name));
            running.spawn(async move { floors.pairs(&name, stop).await });
        }
        let mut samples = Samples::new();
        while let Some(task) = running.join_next().await {
            samples.add(&task??);
        }
        let ns = u64::try_from(started.elapsed().as_nanos())?;
        let latencies = if order.tasks == 1 { samples.nanoseconds() } else { Vec::new() };
        Ok(Reply::Pairs { count: samples.len(), ns, latencies })
    }

    /// One message, which goes round all processes, instead of a lock that does.
    async fn pass_on(&self, order: &Contend) -> Result<Reply> {
        let channel = |process: usize| format!("{}-{}", order.name, process % order.processes);
        let forwarder = self.0.forwarder(&channel(order.process), &channel(order.process + 1)).await?;
        let mut forwarder = forwarder.ok_or("this store has no messages")?;
        let left = |at: u64| Duration::from_nanos(at.saturating_sub(now()));
        sleep(left(order.start_ns)).await;
        let round = ForwardingRound {
            first: order.process == 0,
            hold: Duration::from_micros(order.hold_us),
            until: Timestamp::now().plus(left(order.until_ns)),
        };
        let latencies = forwarder.run(round).await?;
        let latencies = latencies.iter().map(|latency| u64::try_from(latency.as_nanos()));
        Ok(Reply::Passed { latencies: latencies.collect::<Result<_, _>>()? })
    }
}
