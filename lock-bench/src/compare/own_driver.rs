//! [`drive`]: this binary as the driver of our locks, or of a floor.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use lock_core::{AcquireOptions, DistributedLock, Guard, Keeper, Locks, SystemEntropy};
use tokio::{task::JoinSet, time::sleep};

use super::{
    analysis::PERMITS,
    args::{DriverArgs, FLOOR},
    driver::{Driver, LibraryDriver, Lock, Role, System, now, serve},
    protocol::{Contend, Hello, Kind, Pairs, Request, Response},
};
use crate::{
    error::Result,
    samples::Samples,
    store::{self, ForwardingRound, Store, StoreKind},
    timestamp::Timestamp,
    uncontended::Stop,
};

/// Handles requests until the standard input ends.
pub(crate) async fn drive(args: &DriverArgs) -> Result<()> {
    // Drivers get `host:port`.
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
    let locks =
        Locks::with(store.backend()?, Keeper::shared(), Arc::new(SystemEntropy)).with_options(options);
    serve(ready(&[Kind::Mutex, Kind::Rw, Kind::Semaphore]), LibraryDriver::new(Distlock(locks))).await
}

struct Distlock(Locks);

#[async_trait]
impl System for Distlock {
    async fn lock(&self, name: &str, role: Role) -> Result<Box<dyn Lock>> {
        let lock: Arc<dyn DistributedLock> = match role {
            Role::Mutex => Arc::new(self.0.mutex(name)?),
            Role::Read => Arc::new(self.0.rwlock(name)?.read()),
            Role::Write => Arc::new(self.0.rwlock(name)?.write()),
            Role::Permit => Arc::new(self.0.semaphore(name, u32::try_from(PERMITS)?)?.permits(1)?),
        };
        Ok(Box::new(DistlockContender { lock, guard: None }))
    }
}

struct DistlockContender {
    lock: Arc<dyn DistributedLock>,
    guard: Option<Guard>,
}

#[async_trait]
impl Lock for DistlockContender {
    async fn acquire(&mut self) -> Result<()> {
        self.guard = Some(self.lock.acquire().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<bool> {
        let guard = self.guard.take().ok_or("not held")?;
        Ok(guard.release().await?.confirmed().is_ok())
    }
}

/// The driver of a floor.
struct Floor(Box<dyn Store>);

#[async_trait]
impl Driver for Floor {
    async fn handle(&mut self, request: Request) -> Result<Response> {
        match request {
            Request::Pairs(request) => self.pairs(&request).await,
            Request::Contend(request) => self.forward(&request).await,
            Request::GiveBack {} => Ok(Response::Done { lost: 0 }),
            Request::Hold { .. } | Request::Keep { .. } => Err("a floor has no locks".into()),
        }
    }
}

impl Floor {
    async fn pairs(&self, request: &Pairs) -> Result<Response> {
        let floors = self.0.floors().await?.ok_or("this store has no floor")?;
        let started = Instant::now();
        let stop = match request.count {
            0 => Stop::At(started + Duration::from_millis(request.run_ms)),
            count => Stop::After(count),
        };
        let mut running = JoinSet::new();
        for task in 0..request.tasks {
            let (floors, name) = (Arc::clone(&floors), format!("{}-{task}", request.name));
            running.spawn(async move { floors.pairs(&name, stop).await });
        }
        let mut samples = Samples::new();
        while let Some(task) = running.join_next().await {
            samples.add(&task??);
        }
        let ns = u64::try_from(started.elapsed().as_nanos())?;
        let latencies = if request.tasks == 1 { samples.nanoseconds() } else { Vec::new() };
        Ok(Response::Pairs { count: samples.len(), ns, latencies })
    }

    /// One message passes through all processes, as the lock does otherwise.
    async fn forward(&self, request: &Contend) -> Result<Response> {
        let channel = |process: usize| format!("{}-{}", request.name, process % request.processes);
        let forwarder = self.0.forwarder(&channel(request.process), &channel(request.process + 1)).await?;
        let mut forwarder = forwarder.ok_or("this store has no messages")?;
        let left = |at: u64| Duration::from_nanos(at.saturating_sub(now()));
        sleep(left(request.start_ns)).await;
        let round = ForwardingRound {
            first: request.process == 0,
            hold: Duration::from_micros(request.hold_us),
            until: Timestamp::now().plus(left(request.until_ns)),
        };
        let latencies = forwarder.run(round).await?;
        let latencies = latencies.iter().map(|latency| u64::try_from(latency.certain.as_nanos()));
        Ok(Response::Passed { latencies: latencies.collect::<Result<_, _>>()? })
    }
}
