//! [`Locks`]: a backend, and the locks on it.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use crate::{
    AcquireOptions, Backend, Claim, DistributedLock, Entropy, Error, Guarantees, Keeper, Lock, LockName,
    Operator, RwLock, Semaphore, SystemEntropy, client::Client, panic_isolation::shielded,
};

/// A backend with the keeper that serves it: where locks come from. Cheap to clone.
///
/// ```
/// use lock_core::{DistributedLock, Locks, Memory};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(Memory::new());
/// let guard = locks.mutex("report")?.acquire().await?;
/// assert!(guard.is_held());
/// guard.release().await?;
/// locks.close(std::time::Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Locks {
    client: Arc<Client>,
    options: AcquireOptions,
}

impl Locks {
    /// Locks on a backend, served by the keeper of the process.
    ///
    /// # Panics
    /// Like `std::thread::spawn`, if the keeper's thread cannot be started.
    #[must_use]
    pub fn new(backend: impl Backend) -> Self {
        Self::with(Arc::new(backend), Keeper::shared(), Arc::new(SystemEntropy))
    }

    /// Locks on a backend, with a keeper and a source of randomness of one's own: for simulations, and for tests with
    /// several clients in one process.
    #[must_use]
    pub fn with(backend: Arc<dyn Backend>, keeper: Keeper, entropy: Arc<dyn Entropy>) -> Self {
        Self { client: Arc::new(Client::new(backend, keeper, entropy)), options: AcquireOptions::default() }
    }

    /// The same locks with other options for whatever is made from now on.
    #[must_use]
    pub fn with_options(mut self, options: AcquireOptions) -> Self {
        self.options = options;
        self
    }

    /// The same locks, whose end waits for so long at the most until what they gave back has left the store: 200 ms, if this is not
    /// called. Zero does not wait. It is changed for all clones of these locks at once, and for the locks made of them.
    ///
    /// A process that ends takes the keeper with it. So when the last of these locks, their clones and guards is dropped, and something
    /// is still to be given back, the drop blocks its thread for that moment: a guard that lives to the end of `main` is released. It
    /// blocks no thread that runs tasks: on a worker of tokio, or on a runtime with a single thread, it returns at once, and so it
    /// does for statics, `std::process::exit` and an abort, which drop nothing or have no keeper. There, [`close`](Self::close) is the
    /// way. Threads of other executors cannot be told from plain ones: give them zero.
    #[must_use]
    pub fn with_linger(self, linger: Duration) -> Self {
        self.client.linger_for(linger);
        self
    }

    /// A lock with one holder, first come, first served.
    ///
    /// It is not re-entrant: who asks for it again while holding it waits for himself.
    ///
    /// # Errors
    /// [`Error::Input`] if the name is empty or too long.
    pub fn mutex(&self, name: impl AsRef<str>) -> Result<Lock, Error> {
        Ok(Lock::new(Arc::clone(&self.client), LockName::new(name)?, Claim::mutex(), self.options.clone()))
    }

    /// A read-write lock.
    ///
    /// # Errors
    /// [`Error::Input`] if the name is empty or too long.
    pub fn rwlock(&self, name: impl AsRef<str>) -> Result<RwLock, Error> {
        Ok(RwLock::new(Arc::clone(&self.client), LockName::new(name)?, self.options.clone()))
    }

    /// A semaphore of `limit` permits.
    ///
    /// # Errors
    /// [`Error::Input`] if the name is empty or too long, or the limit is 0 or above [`Claim::MAX`].
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Result<Semaphore, Error> {
        Semaphore::new(Arc::clone(&self.client), LockName::new(name)?, limit, self.options.clone())
    }

    /// The store, for people and tools: queues, names, force-release, diagnosis.
    #[must_use]
    pub fn operator(&self) -> &dyn Operator {
        self.client.backend.operator()
    }

    /// Whether locks can be asked for, for a readiness probe: reads a queue, of the name `ping`, and changes nothing. That the store
    /// takes writes, it does not show.
    ///
    /// # Errors
    /// [`Error::Backend`] if the store does not answer, within the time limit of the backend for a command; [`Error::Closed`],
    /// [`Error::KeeperEnded`], [`Error::Forked`].
    ///
    /// # Cancel safety
    /// Safe to drop: it only reads.
    pub async fn ping(&self) -> Result<(), Error> {
        let lock = self.mutex("ping")?;
        self.client.check_open(lock.name())?;
        lock.queue().await.map(drop)
    }

    /// What the store promises.
    #[must_use]
    pub fn guarantees(&self) -> &Guarantees {
        self.client.backend.guarantees()
    }

    /// Takes no more locks, and waits until nothing is left of those that were taken.
    ///
    /// At once, whoever waits for a lock gets [`Error::Closed`], however long he would have waited. Then, for `within` at the most,
    /// it waits until the entries of those who waited and all that dropped guards and futures left behind have left the
    /// store, requests that were not answered among them, and until the guards that are still held are released or dropped. It
    /// ends as soon as that is so, and else says what is left. Guards are not taken away: they are renewed as before.
    ///
    /// When no lock is left, what the store keeps for this client besides, as the session of etcd, is given back, as far as the store
    /// answers in the time that is left. If it does not, that ends by itself, and keeps nobody from a lock.
    ///
    /// When it has returned, nothing is granted any more, whatever was on its way. A process that exits without this may leave
    /// a lock behind until its ttl ends, unless it [lingers](Self::with_linger). In a fork it does nothing: the locks are the parent's.
    ///
    /// # Errors
    /// [`CloseError`] names what is still held, and what is not confirmed to be free.
    ///
    /// # Cancel safety
    /// Safe to drop: the clean-up goes on. It can be called again.
    pub async fn close(&self, within: Duration) -> Result<(), CloseError> {
        self.client.begin_to_close();
        shielded(pin!(self.client.drain(within))).await;
        self.closed()
    }

    /// Like [`close`](Self::close), for a thread without a runtime. It blocks.
    ///
    /// # Errors
    /// [`CloseError`] names what is still held, and what is not confirmed to be free.
    pub fn close_blocking(&self, within: Duration) -> Result<(), CloseError> {
        self.client.begin_to_close();
        let (done, drained) = std::sync::mpsc::channel();
        let client = Arc::clone(&self.client);
        self.client.keeper.spawn(async move {
            client.drain(within).await;
            // Nobody listens any more when the time was up first.
            let _ = done.send(());
        });
        // Either way what is left tells what happened.
        let _ = drained.recv_timeout(within);
        self.closed()
    }

    fn closed(&self) -> Result<(), CloseError> {
        if self.client.keeper.is_forked() {
            return Ok(());
        }
        let mut held: Vec<_> = self.client.renewals.held().iter().map(|hold| hold.name().clone()).collect();
        held.sort();
        let pending = self.client.cleanup.pending();
        let free_within = |free_by| self.client.free_within(free_by);
        let unconfirmed =
            pending.into_iter().map(|leave| (leave.entry.name.clone(), free_within(leave.free_by))).collect();
        let error = CloseError { held, unconfirmed };
        if error.held.is_empty() && error.unconfirmed.is_empty() { Ok(()) } else { Err(error) }
    }
}

/// What [`Locks::close`] could not bring to an end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct CloseError {
    /// Locks whose guards are still held.
    pub held: Vec<LockName>,
    /// Locks that are not confirmed to be free, and the longest time until the store frees each by itself. `None` where a lease that
    /// other locks share may keep it.
    pub unconfirmed: Vec<(LockName, Option<Duration>)>,
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |f: &mut fmt::Formatter<'_>, names: &mut dyn Iterator<Item = &LockName>| {
            const SHOWN: usize = 5;
            for (i, name) in names.enumerate() {
                match i {
                    0 => write!(f, " `{name}`")?,
                    SHOWN => return f.write_str(", …"),
                    _ => write!(f, ", `{name}`")?,
                }
            }
            Ok(())
        };
        if !self.held.is_empty() {
            write!(f, "{} still held, release their guards:", self.held.len())?;
            names(f, &mut self.held.iter())?;
        }
        if !self.held.is_empty() && !self.unconfirmed.is_empty() {
            f.write_str("; ")?;
        }
        if !self.unconfirmed.is_empty() {
            write!(
                f,
                "{} not confirmed to be free, at the latest when their leases end:",
                self.unconfirmed.len()
            )?;
            names(f, &mut self.unconfirmed.iter().map(|(name, _)| name))?;
        }
        Ok(())
    }
}
