//! [`Locks`]: a backend, and the locks on it.

use std::{collections::BTreeMap, fmt, pin::pin, sync::Arc, time::Duration};

use crate::{
    AcquireOptions, Backend, Claim, DistributedLock, Entropy, Error, Guarantees, Hold, Keeper, Lock,
    LockName, Operator, RwLock, Semaphore, SystemEntropy, client::Client, panic_isolation::shielded,
};

/// A backend with the keeper that serves it: where locks come from.
///
/// Make one for each store and process, and clone it: clones share the connections and are [closed](Self::close) together. Locks and
/// guards keep what they need of it alive. A second one on the same store is another client, whose locks this one does not know.
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
    /// Locks on a backend, served by the keeper of the process. Nothing is sent before the first lock is taken.
    ///
    /// # Panics
    /// Like `std::thread::spawn`, if the keeper's thread cannot be started.
    #[must_use]
    pub fn new(backend: impl Backend) -> Self {
        Self::with(Arc::new(backend), Keeper::shared(), Arc::new(SystemEntropy))
    }

    /// Locks on a backend, with a given keeper and source of randomness: for simulations, and for tests with several clients in one
    /// process.
    #[must_use]
    pub fn with(backend: Arc<dyn Backend>, keeper: Keeper, entropy: Arc<dyn Entropy>) -> Self {
        Self { client: Arc::new(Client::new(backend, keeper, entropy)), options: AcquireOptions::default() }
    }

    /// The same locks, with other options for the locks that are made from now on. Locks that were made before keep theirs.
    #[must_use]
    pub fn with_options(mut self, options: AcquireOptions) -> Self {
        self.options = options;
        self
    }

    /// The same locks, whose last drop waits for `linger` at the most until dropped guards are released in the store. Default: 200 ms; zero
    /// does not wait. This changes all clones of these locks, and the locks made from them.
    ///
    /// The keeper ends with the process. So when the last of these locks, their clones and guards is dropped, and a release is not done
    /// yet, the drop blocks its thread for a moment: a guard that lives until the end of `main` is released.
    ///
    /// A thread that runs tasks is never blocked: on a worker of tokio, and on a runtime with a single thread, the drop returns immediately.
    /// Statics, `std::process::exit` and an abort drop nothing. Call [`close`](Self::close) there. Threads of other executors cannot be
    /// told from plain ones: give them zero.
    #[must_use]
    pub fn with_linger(self, linger: Duration) -> Self {
        self.client.linger_for(linger);
        self
    }

    /// A lock with one holder, first come, first served.
    ///
    /// It is not re-entrant: a task that asks for it again while it holds the guard waits for itself. With a `wait` in the options that
    /// ends with [`Error::WaitTimeout`], which tells that this process holds the lock. It knows that of these `Locks` and their clones.
    ///
    /// # Errors
    /// [`Error::Input`] if the name is empty or too long.
    pub fn mutex(&self, name: impl AsRef<str>) -> Result<Lock, Error> {
        Ok(Lock::new(Arc::clone(&self.client), LockName::new(name)?, Claim::mutex(), self.options.clone()))
    }

    /// A lock that many readers share, or one writer has alone.
    ///
    /// # Errors
    /// [`Error::Input`] if the name is empty or too long.
    pub fn rwlock(&self, name: impl AsRef<str>) -> Result<RwLock, Error> {
        Ok(RwLock::new(Arc::clone(&self.client), LockName::new(name)?, self.options.clone()))
    }

    /// A semaphore of `limit` permits. Every process has to name the same limit.
    ///
    /// # Errors
    /// [`Error::Input`] if the name is empty or too long, or the limit is 0 or above [`Claim::MAX`].
    pub fn semaphore(&self, name: impl AsRef<str>, limit: u32) -> Result<Semaphore, Error> {
        Semaphore::new(Arc::clone(&self.client), LockName::new(name)?, limit, self.options.clone())
    }

    /// The store, for people and tools: queues, names, eviction, diagnosis. In a fork of the process that connected, each of its calls
    /// fails at once, with [`BackendErrorKind::Forked`](crate::BackendErrorKind::Forked).
    #[must_use]
    pub fn operator(&self) -> &dyn Operator {
        &*self.client
    }

    /// Whether the store answers, for a readiness probe. It reads the queue of the name `ping`, and changes nothing; so it does not show
    /// that the store takes writes.
    ///
    /// # Errors
    /// [`Error::Backend`] if the store does not answer, within the time limit of the backend for a command; [`Error::Closed`],
    /// [`Error::KeeperEnded`], [`Error::Forked`].
    ///
    /// # Cancel safety
    /// Dropping the future abandons the request, which changes nothing in the store.
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

    /// Takes no more locks, and waits until those that were taken have left the store. Call it before the process ends.
    ///
    /// 1. Every waiter gets [`Error::Closed`] at once. From here on nothing is granted, whatever is under way.
    /// 2. For `within` at the most, it waits until the guards that are still held are released or dropped, and until the store has
    ///    confirmed that the entries of waiters, dropped guards and dropped futures are gone. Guards are not taken away: they are renewed
    ///    as before.
    /// 3. When no lock is left, it gives back what the store keeps for this client besides, such as the session of etcd, as far as the
    ///    store answers in the time that is left. What is not given back ends by itself, and blocks no lock.
    ///
    /// It returns as soon as that is done. A process that exits without it may leave a lock behind until its ttl ends, unless it
    /// [lingers](Self::with_linger). In a fork it does nothing: the locks are the parent's.
    ///
    /// # Errors
    /// [`CloseError`] names what is still held, and what is not confirmed to be free.
    ///
    /// # Cancel safety
    /// Dropping the future does not undo the close: nothing is taken any more, and the keeper goes on with the clean-up. Call it again to
    /// wait for the rest.
    pub async fn close(&self, within: Duration) -> Result<(), CloseError> {
        self.client.begin_to_close();
        shielded(pin!(self.client.drain(within))).await;
        self.closed()
    }

    /// Like [`close`](Self::close), for a thread without a runtime. It blocks the thread, for `within` at the most.
    ///
    /// # Errors
    /// [`CloseError`] names what is still held, and what is not confirmed to be free.
    pub fn close_blocking(&self, within: Duration) -> Result<(), CloseError> {
        self.client.begin_to_close();
        let (done, drained) = std::sync::mpsc::channel();
        let client = Arc::clone(&self.client);
        self.client.keeper.spawn(async move {
            client.drain(within).await;
            // Nobody receives it when the time was over first.
            let _ = done.send(());
        });
        // Either way, what is left is the result.
        let _ = drained.recv_timeout(within);
        self.closed()
    }

    fn closed(&self) -> Result<(), CloseError> {
        if self.client.keeper.is_forked() {
            return Ok(());
        }
        // The keeper schedules a leave in one step. Read before what is scheduled, each entry is found, and perhaps in both.
        let holds = self.client.renewals.holds();
        let (held, lost): (Vec<_>, Vec<_>) = holds.into_iter().partition(Hold::is_held);
        let pending = self.client.cleanup.pending();
        let mut held: Vec<_> = held.iter().map(|hold| hold.name().clone()).collect();
        held.sort();
        // A keeper that is late or blocked, or has ended, has not left for what is lost.
        let now = self.client.keeper.now();
        let mut left: BTreeMap<_, _> =
            lost.iter().map(|hold| (hold.entry_id(), (hold.name().clone(), now + hold.ttl()))).collect();
        left.extend(pending.iter().map(|leave| (leave.entry.id, (leave.entry.name.clone(), leave.free_by))));
        let free_within = |(name, free_by)| (name, self.client.free_within(free_by));
        let mut unconfirmed: Vec<_> = left.into_values().map(free_within).collect();
        unconfirmed.sort();
        let error = CloseError { held, unconfirmed };
        if error.held.is_empty() && error.unconfirmed.is_empty() { Ok(()) } else { Err(error) }
    }
}

/// What was left when the time of [`Locks::close`] was over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct CloseError {
    /// Locks whose guards are still held.
    pub held: Vec<LockName>,
    /// Locks that are not confirmed to be free, also those that were lost, and the longest time until the store frees each of them by
    /// itself. `None` where a lease that other locks share may keep it.
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
