//! [`Command`] and [`Reply`]: the messages between a case and its client processes.

use std::{path::PathBuf, sync::Arc};

use lock_core::{AcquireOptions, DistributedLock, Error, FencingToken, Guard, Locks, Released};
use serde::{Deserialize, Serialize};

/// A kind of lock, and a side or portion of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Side {
    /// A mutex.
    Mutex,
    /// The side of a read-write lock that is shared.
    Read,
    /// The side of a read-write lock that excludes all others.
    Write,
    /// A portion of a semaphore.
    Permits {
        /// How many.
        permits: u32,
        /// Of how many.
        limit: u32,
    },
}

impl Side {
    /// The lock of that name.
    ///
    /// # Errors
    /// [`Error::Input`] if the name, the permits or the limit are bad.
    pub fn lock(self, locks: &Locks, name: &str) -> Result<Arc<dyn DistributedLock>, Error> {
        Ok(match self {
            Self::Mutex => Arc::new(locks.mutex(name)?),
            Self::Read => Arc::new(locks.rwlock(name)?.read()),
            Self::Write => Arc::new(locks.rwlock(name)?.write()),
            Self::Permits { permits, limit } => Arc::new(locks.semaphore(name, limit)?.permits(permits)?),
        })
    }
}

/// A command to a client process. Commands are carried out in order, and each gets a reply.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Command {
    /// Takes a lock and keeps it.
    Acquire {
        /// Its name.
        name: String,
        /// What of it.
        side: Side,
        /// How.
        options: AcquireOptions,
    },
    /// Takes a lock if it is free, and keeps it.
    Try {
        /// Its name.
        name: String,
        /// What of it.
        side: Side,
        /// How.
        options: AcquireOptions,
    },
    /// Releases the lock that was taken last and is still kept.
    Release,
    /// Says whether the lock that was taken last is held.
    IsHeld,
    /// In each round: acquires the mutex, increments the number in the file by a read and a write, and releases.
    Count {
        /// The name of the mutex.
        name: String,
        /// How to take it.
        options: AcquireOptions,
        /// The file that holds the number.
        file: PathBuf,
        /// How often.
        rounds: u32,
    },
}

/// The reply of a client process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// It accepts commands.
    Ready,
    /// It holds the lock, with this token.
    Granted(FencingToken),
    /// The lock is not free.
    Busy,
    /// It released the lock. False if the lock had been lost before.
    Released(bool),
    /// Whether the lock is held.
    Held(bool),
    /// It has counted.
    Counted,
    /// It failed, with this error.
    Failed(String),
}

/// Carries out commands.
#[derive(Debug)]
pub(crate) struct Interpreter {
    locks: Locks,
    guards: Vec<Guard>,
}

impl Interpreter {
    pub(crate) fn new(locks: Locks) -> Self {
        Self { locks, guards: Vec::new() }
    }

    pub(crate) async fn execute(&mut self, command: Command) -> Reply {
        self.try_execute(command).await.unwrap_or_else(|error| Reply::Failed(error.to_string()))
    }

    async fn try_execute(&mut self, command: Command) -> Result<Reply, Error> {
        Ok(match command {
            Command::Acquire { name, side, options } => {
                let guard = side.lock(&self.locks, &name)?.acquire_with(&options).await?;
                self.keep(guard)
            }
            Command::Try { name, side, options } => {
                match side.lock(&self.locks, &name)?.try_acquire_with(&options).await? {
                    Some(guard) => self.keep(guard),
                    None => Reply::Busy,
                }
            }
            Command::Release => match self.guards.pop() {
                Some(guard) => match guard.release().await {
                    Ok(Released::Pending { cause, .. }) => Reply::Failed(cause.to_string()),
                    Err(Error::Lost { .. }) => Reply::Released(false),
                    released => released.map(|_| Reply::Released(true))?,
                },
                None => Reply::Failed("no lock is kept".to_owned()),
            },
            Command::IsHeld => Reply::Held(self.guards.last().is_some_and(Guard::is_held)),
            Command::Count { name, options, file, rounds } => {
                let lock = Side::Mutex.lock(&self.locks, &name)?;
                for _ in 0..rounds {
                    let guard = lock.acquire_with(&options).await?;
                    if let Err(error) = count(&file) {
                        return Ok(Reply::Failed(error.to_string()));
                    }
                    guard.release().await?;
                }
                Reply::Counted
            }
        })
    }

    fn keep(&mut self, guard: Guard) -> Reply {
        let token = guard.token();
        self.guards.push(guard);
        Reply::Granted(token)
    }
}

/// Without the lock around it, this loses counts.
fn count(file: &PathBuf) -> std::io::Result<()> {
    let number: u64 = std::fs::read_to_string(file)?.trim().parse().map_err(std::io::Error::other)?;
    std::thread::yield_now();
    std::fs::write(file, (number + 1).to_string())
}
