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

use super::protocol::{Contend, Grant, Hello, Kind, Pairs, Request, Response};

/// Reports an error to the runner.
pub(crate) type Result<T, E = Box<dyn error::Error + Send + Sync>> = std::result::Result<T, E>;

/// A lock library.
#[async_trait]
pub(crate) trait System: Send + Sync + 'static {
    /// A lock for one contender.
    async fn lock(&self, name: &str, role: Role) -> Result<Box<dyn Lock>>;
}

/// How a contender takes a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// As the only holder of a mutex.
    Mutex,
    /// As one of several readers.
    Read,
    /// As the only writer.
    Write,
    /// As one of a few holders of a semaphore.
    Permit,
}

/// A lock, for one contender.
#[async_trait]
pub(crate) trait Lock: Send {
    /// Waits until the lock is held.
    async fn acquire(&mut self) -> Result<()>;

    /// Whether the lock was still held, as far as the library tells.
    async fn release(&mut self) -> Result<bool>;
}

/// Handles the requests of the runner.
#[async_trait]
pub(crate) trait Driver: Send {
    /// Carries out one request.
    async fn handle(&mut self, request: Request) -> Result<Response>;
}

/// The driver of a library.
pub(crate) struct LibraryDriver {
    system: Arc<dyn System>,
    held: Vec<Box<dyn Lock>>,
}

/// Nanoseconds of the clock that all drivers share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither is negative.
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Handles the requests that come on the standard input, until it ends.
pub(crate) async fn serve(hello: Hello, mut driver: impl Driver) -> Result<()> {
    say(&hello).await?;
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let response = match serde_json::from_str(&line) {
            Ok(request) => {
                driver.handle(request).await.unwrap_or_else(|error| Response::Failed(error.to_string()))
            }
            Err(error) => Response::Failed(format!("not a request: {error}")),
        };
        say(&response).await?;
    }
    Ok(())
}

/// Writes one line.
pub(crate) async fn say(what: &(impl serde::Serialize + Sync)) -> Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    let mut output = stdout();
    output.write_all(&line).await?;
    Ok(output.flush().await?)
}

impl LibraryDriver {
    pub(crate) fn new(system: impl System) -> Self {
        Self { system: Arc::new(system), held: Vec::new() }
    }

    /// Takes so many locks.
    async fn keep(&mut self, name: &str, count: usize) -> Result<Response> {
        const CONCURRENCY: usize = 64;
        let mut running = JoinSet::new();
        for i in 0..count {
            if running.len() == CONCURRENCY
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
        Ok(Response::Done { lost: 0 })
    }

    async fn give_back(&mut self) -> Result<Response> {
        let mut lost = 0;
        for mut lock in std::mem::take(&mut self.held) {
            lost += u64::from(!lock.release().await?);
        }
        Ok(Response::Done { lost })
    }
}

#[async_trait]
impl Driver for LibraryDriver {
    async fn handle(&mut self, request: Request) -> Result<Response> {
        match request {
            Request::Pairs(request) => pairs(&self.system, &request).await,
            Request::Contend(request) => contend(&self.system, &request).await,
            Request::Hold { name } => {
                let lock = hold(&*self.system, &name).await?;
                let at_ns = now();
                self.held.push(lock);
                Ok(Response::Acquired { at_ns })
            }
            Request::Keep { name, count } => self.keep(&name, count).await,
            Request::GiveBack {} => self.give_back().await,
            _ => Err("this driver has none of the optional requests".into()),
        }
    }
}

async fn hold(system: &dyn System, name: &str) -> Result<Box<dyn Lock>> {
    let mut lock = system.lock(name, Role::Mutex).await?;
    lock.acquire().await?;
    Ok(lock)
}

async fn pairs(system: &Arc<dyn System>, request: &Pairs) -> Result<Response> {
    let mut locks = Vec::new();
    for task in 0..request.tasks {
        locks.push(system.lock(&format!("{}-{task}", request.name), Role::Mutex).await?);
    }
    let (started, many, count) = (Instant::now(), request.tasks > 1, request.count);
    let until = started + Duration::from_millis(request.run_ms);
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
    Ok(Response::Pairs { count, ns: u64::try_from(started.elapsed().as_nanos())?, latencies })
}

async fn contend(system: &Arc<dyn System>, request: &Contend) -> Result<Response> {
    let mut running: JoinSet<Result<_>> = JoinSet::new();
    for task in 0..request.tasks {
        let role = match request.kind {
            Kind::Mutex => Role::Mutex,
            Kind::Rw if task < request.writers => Role::Write,
            Kind::Rw => Role::Read,
            Kind::Semaphore => Role::Permit,
        };
        let lock = system.lock(&request.name, role).await?;
        // Numbers are unique among all processes.
        let number = u32::try_from(request.process + task * request.processes)?;
        running.spawn(contender(lock, number, role, request.clone()));
    }
    let (mut grants, mut lost) = (Vec::new(), 0);
    while let Some(task) = running.join_next().await {
        let (some, of_them) = task??;
        grants.extend(some);
        lost += of_them;
    }
    Ok(Response::Contended { grants, lost })
}

async fn contender(
    mut lock: Box<dyn Lock>,
    task: u32,
    role: Role,
    request: Contend,
) -> Result<(Vec<Grant>, u64)> {
    sleep(Duration::from_nanos(request.start_ns.saturating_sub(now()))).await;
    let (mut grants, mut lost) = (Vec::new(), 0);
    let shared = u8::from(matches!(role, Role::Read | Role::Permit));
    loop {
        let asked = now();
        if asked >= request.until_ns {
            return Ok((grants, lost));
        }
        lock.acquire().await?;
        let acquired = now();
        if request.hold_us > 0 && acquired < request.until_ns {
            sleep(Duration::from_micros(request.hold_us)).await;
        }
        grants.push(Grant(task, asked, acquired, now(), shared));
        lost += u64::from(!lock.release().await?);
    }
}
