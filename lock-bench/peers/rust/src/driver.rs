//! [`serve`]: the part of a driver that is the same for every library in Rust.

use std::{
    error,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, stdin, stdout},
    task::JoinSet,
    time::sleep,
};

use super::protocol::{Contend, Grant, Hello, Kind, Order, Pairs, Reply};

/// What goes wrong is told to the one who asked.
pub(crate) type Result<T, E = Box<dyn error::Error + Send + Sync>> = std::result::Result<T, E>;

/// A library.
#[async_trait]
pub(crate) trait System: Send + Sync + 'static {
    /// A lock for one contender.
    async fn lock(&self, name: &str, role: Role) -> Result<Box<dyn Lock>>;
}

/// What one contender wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// To be alone.
    Mutex,
    /// To be with other readers.
    Read,
    /// To be alone, among readers.
    Write,
    /// To be one of a few.
    Permit,
}

/// A lock, for one contender.
#[async_trait]
pub(crate) trait Lock: Send {
    /// Waits until it has it.
    async fn acquire(&mut self) -> Result<()>;

    /// Whether it was held until now, as far as the library says so.
    async fn release(&mut self) -> Result<bool>;
}

/// What obeys orders.
#[async_trait]
pub(crate) trait Driver: Send {
    /// Carries it out.
    async fn obey(&mut self, order: Order) -> Result<Reply>;
}

/// The driver of a library.
pub(crate) struct Locks {
    system: Arc<dyn System>,
    held: Vec<Box<dyn Lock>>,
}

/// Nanoseconds of the clock that all drivers share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither is negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Obeys what comes on the standard input, until that ends.
pub(crate) async fn serve(hello: Hello, mut driver: impl Driver) -> Result<()> {
    say(&hello).await?;
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let reply = match serde_json::from_str(&line) {
            Ok(order) => driver.obey(order).await.unwrap_or_else(|error| Reply::Failed(error.to_string())),
            Err(error) => Reply::Failed(format!("not an order: {error}")),
        };
        say(&reply).await?;
    }
    Ok(())
}

/// One line.
pub(crate) async fn say(what: &(impl serde::Serialize + Sync)) -> Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    let mut output = stdout();
    output.write_all(&line).await?;
    Ok(output.flush().await?)
}

impl Locks {
    /// Of this library.
    pub(crate) fn new(system: impl System) -> Self {
        Self { system: Arc::new(system), held: Vec::new() }
    }

    /// So many at the same time.
    async fn keep(&mut self, name: &str, count: usize) -> Result<Reply> {
        const AT_ONCE: usize = 64;
        let mut running = JoinSet::new();
        for i in 0..count {
            if running.len() == AT_ONCE
                && let Some(lock) = running.join_next().await
            {
                self.held.push(lock??);
            }
            let (system, name) = (Arc::clone(&self.system), format!("{name}-{i}"));
            running.spawn(async move { hold(&*system, &name).await });
        }
        while let Some(lock) = running.join_next().await {
            self.held.push(lock??);
        }
        Ok(Reply::Done { lost: 0 })
    }

    async fn give_back(&mut self) -> Result<Reply> {
        let mut lost = 0;
        for mut lock in std::mem::take(&mut self.held) {
            lost += u64::from(!lock.release().await?);
        }
        Ok(Reply::Done { lost })
    }
}

#[async_trait]
impl Driver for Locks {
    async fn obey(&mut self, order: Order) -> Result<Reply> {
        match order {
            Order::Pairs(order) => pairs(&self.system, &order).await,
            Order::Contend(order) => contend(&self.system, &order).await,
            Order::Hold { name } => {
                let lock = hold(&*self.system, &name).await?;
                let at_ns = now();
                self.held.push(lock);
                Ok(Reply::Acquired { at_ns })
            }
            Order::Keep { name, count } => self.keep(&name, count).await,
            Order::GiveBack {} => self.give_back().await,
        }
    }
}

async fn hold(system: &dyn System, name: &str) -> Result<Box<dyn Lock>> {
    let mut lock = system.lock(name, Role::Mutex).await?;
    lock.acquire().await?;
    Ok(lock)
}

async fn pairs(system: &Arc<dyn System>, order: &Pairs) -> Result<Reply> {
    let mut locks = Vec::new();
    for task in 0..order.tasks {
        locks.push(system.lock(&format!("{}-{task}", order.name), Role::Mutex).await?);
    }
    let (started, many, count) = (Instant::now(), order.tasks > 1, order.count);
    let until = started + Duration::from_millis(order.run_ms);
    let mut running: JoinSet<Result<_>> = JoinSet::new();
    for mut lock in locks {
        running.spawn(async move {
            let (mut done, mut latencies) = (0, Vec::new());
            while if count > 0 { done < count } else { Instant::now() < until } {
                let asked = Instant::now();
                lock.acquire().await?;
                if !lock.release().await? {
                    return Err("a lock that nobody else wanted was lost".into());
                }
                done += 1;
                if !many {
                    latencies.push(u64::try_from(asked.elapsed().as_nanos())?);
                }
            }
            Ok((done, latencies))
        });
    }
    let (mut count, mut latencies) = (0, Vec::new());
    while let Some(task) = running.join_next().await {
        let (done, some) = task??;
        count += done;
        latencies.extend(some);
    }
    Ok(Reply::Pairs { count, ns: u64::try_from(started.elapsed().as_nanos())?, latencies })
}

async fn contend(system: &Arc<dyn System>, order: &Contend) -> Result<Reply> {
    let mut running: JoinSet<Result<_>> = JoinSet::new();
    for task in 0..order.tasks {
        let role = match order.kind {
            Kind::Mutex => Role::Mutex,
            Kind::Rw if task < order.writers => Role::Write,
            Kind::Rw => Role::Read,
            Kind::Semaphore => Role::Permit,
        };
        let lock = system.lock(&order.name, role).await?;
        // All processes number their contenders together.
        let number = u32::try_from(order.process + task * order.processes)?;
        running.spawn(contender(lock, number, role, order.clone()));
    }
    let (mut grants, mut lost) = (Vec::new(), 0);
    while let Some(task) = running.join_next().await {
        let (some, of_them) = task??;
        grants.extend(some);
        lost += of_them;
    }
    Ok(Reply::Contended { grants, lost })
}

async fn contender(
    mut lock: Box<dyn Lock>,
    task: u32,
    role: Role,
    order: Contend,
) -> Result<(Vec<Grant>, u64)> {
    sleep(Duration::from_nanos(order.start_ns.saturating_sub(now()))).await;
    let (mut grants, mut lost) = (Vec::new(), 0);
    let shared = u8::from(matches!(role, Role::Read | Role::Permit));
    loop {
        let asked = now();
        if asked >= order.until_ns {
            return Ok((grants, lost));
        }
        lock.acquire().await?;
        let acquired = now();
        if order.hold_us > 0 && acquired < order.until_ns {
            sleep(Duration::from_micros(order.hold_us)).await;
        }
        grants.push(Grant(task, asked, acquired, now(), shared));
        lost += u64::from(!lock.release().await?);
    }
}
