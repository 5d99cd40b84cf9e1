//! [`Sqlite`]: the backend over one file. Each verb is one transaction.

pub(crate) mod enter;
pub(crate) mod leave;
mod operator;
mod renew;

use std::{
    fmt,
    fs::File,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_channel::oneshot;
use futures_util::future::poll_fn;
use lock_core::{
    Alarms, Backend, BackendError, BackendErrorKind, Clock, Creates, Departure, Entry, FencingToken,
    Guarantees, Holder, Keeper, Lease, Operator, Renewal, Standing, Step, SystemClock, WaitMode, valid_until,
};

use self::enter::EntryState;
use crate::{
    ConnectError, SqliteConfig,
    error::{Failure, STORE, of_io},
    executor::Job,
    executor_handle::ExecutorHandle,
    files::Files,
    guarantees,
    store::Store,
    transaction::Transaction,
};

/// After this many verbs, a caller yields once to other tasks.
const TURNS: usize = 16;

/// Locks between the processes of one machine, over one file. Make one for a process, and share it. Backends with the same settings share
/// their threads and open files.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use lock_core::{DistributedLock, Keeper, Locks};
/// use lock_sqlite::{Sqlite, SqliteConfig};
///
/// let config: SqliteConfig = "sqlite:/var/lib/app/locks.db".parse()?;
/// let locks = Locks::new(Sqlite::connect(config, &Keeper::shared()).await?);
/// let guard = locks.mutex("invoices/42")?.acquire().await?;
/// # guard.release().await?;
/// # Ok(())
/// # }
/// ```
pub struct Sqlite {
    pub(crate) keeper: Keeper,
    pub(crate) files: Files,
    config: SqliteConfig,
    handle: Arc<ExecutorHandle>,
    /// The keeper's thread. Known once the keeper has run a task of ours.
    keeper_thread: Arc<OnceLock<ThreadId>>,
    /// The number of verbs that their callers carried out, or tried to.
    turns: AtomicUsize,
    /// The process that started the worker. A fork does not have this thread.
    pid: u32,
}

impl Sqlite {
    /// Makes a backend that opens the file at its first use.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is wrong, or a thread cannot be started.
    pub fn new(config: SqliteConfig, keeper: &Keeper) -> Result<Self, ConnectError> {
        config.validate()?;
        let files = Files::new(config.path.as_deref()).map_err(ConnectError::Store)?;
        let handle = ExecutorHandle::of(&files, config.command_timeout).map_err(|error| {
            ConnectError::Store(of_io("starting a thread for", &files.database, error).unsent())
        })?;
        let keeper_thread = Arc::new(OnceLock::new());
        let thread = Arc::clone(&keeper_thread);
        keeper.spawn(async move {
            // This sets it for the first and only time.
            let _ = thread.set(thread::current().id());
        });
        let (keeper, pid) = (keeper.clone(), std::process::id());
        Ok(Self { keeper, files, config, handle, keeper_thread, turns: AtomicUsize::new(0), pid })
    }

    /// Makes a backend, and opens the file, or creates it, so that an unusable file is reported immediately.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is wrong; if the file cannot be opened or created, is damaged, read-only, of a newer version,
    /// or no database of locks; or if it is on a file system on which locks cannot be kept, such as a network file system.
    ///
    /// # Cancel safety
    /// If the future is dropped, no lock is taken; the file may have been created.
    pub async fn connect(config: SqliteConfig, keeper: &Keeper) -> Result<Self, ConnectError> {
        let sqlite = Self::new(config, keeper)?;
        sqlite.call(Store::open).await.map_err(ConnectError::Store)?;
        Ok(sqlite)
    }

    /// Another handle to the file by which other processes see that this process is alive. A process that has it open, such as a child that
    /// inherits it, counts as this one: the locks are free before their ttl ends only when all handles are closed. Executed programs do not
    /// inherit it, unless `FD_CLOEXEC` is cleared.
    ///
    /// # Errors
    /// [`BackendError`] if the file cannot be opened.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing has changed.
    pub async fn process_file(&self) -> Result<File, BackendError> {
        self.call(Store::process_file).await
    }

    /// Makes all later tokens of every name larger than `last`. Use this to move to a new file, with the largest token of the old one.
    /// Tokens never become smaller.
    ///
    /// # Errors
    /// [`BackendError`] if the file cannot be written.
    ///
    /// # Cancel safety
    /// If the future is dropped, the tokens may have been raised or not.
    pub async fn raise_tokens(&self, last: FencingToken) -> Result<(), BackendError> {
        self.call(move |store, give_up| store.raise_tokens(give_up, last)).await
    }

    /// Runs an operation as one transaction: on the caller's thread if that is possible immediately, otherwise on the worker.
    async fn run<T: Send + 'static>(
        &self,
        operation: impl Fn(&mut Transaction<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, BackendError> {
        self.check_fork()?;
        if self.may_run_inline() {
            if self.turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(TURNS) {
                yield_once().await;
            }
            if let Some(done) = self.handle.executor.run_inline(&operation) {
                if self.handle.executor.needs_worker() {
                    self.handle.submit(Box::new(|_| Box::new(|| ())));
                }
                return done;
            }
        }
        self.call(move |store, give_up| store.write(give_up, &operation)).await
    }

    /// The keeper's thread serves all stores, so a slow file must not block it (PR35). Until that thread is known, any thread may be it.
    fn may_run_inline(&self) -> bool {
        self.keeper_thread.get().is_some_and(|keepers| *keepers != thread::current().id())
    }

    fn check_fork(&self) -> Result<(), BackendError> {
        if std::process::id() == self.pid {
            return Ok(());
        }
        let message = "this process is a fork of the one that opened the file, and cannot open it itself; open it only in the \
                       forks, or execute a program there";
        Err(BackendError::new(STORE, BackendErrorKind::Unreachable, message).unsent().advised())
    }

    /// Runs work on the worker, in the order of the calls, and waits for its answer no longer than the time limit for a command.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store, Instant) -> Result<T, BackendError> + Send + 'static,
    ) -> Result<T, BackendError> {
        self.check_fork()?;
        let limit = self.config.command_timeout;
        // The worker gives up before its caller does, and its error says what it waited for.
        let give_up = Instant::now() + limit * 7 / 8;
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |store| {
            // The caller no longer waits. The core cleans up after a call that was given up.
            if reply.is_canceled() {
                return Box::new(|| ());
            }
            let done = work(store, give_up);
            Box::new(move || drop(reply.send(done)))
        });
        if !self.handle.submit(job) {
            return Err(panicked());
        }
        let Some(answer) = self.keeper.timeout_at(self.keeper.now() + limit, answer).await else {
            let message = format!("{} was not done within {limit:?}", self.files.database.display());
            return Err(BackendError::new(STORE, BackendErrorKind::TimedOut, message));
        };
        answer.unwrap_or_else(|_| Err(panicked()))
    }
}

/// Lets other tasks of the runtime run first: a verb that never waits would block them forever.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn panicked() -> BackendError {
    BackendError::new(STORE, BackendErrorKind::Panicked, "the thread of the file panicked")
}

#[async_trait]
impl Backend for Sqlite {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        let asked = entry.clone();
        let sent = self.keeper.now();
        let state = self.run(move |transaction| enter::enter(transaction, &asked, step, wait)).await?;
        let (ttl, valid_until) = (entry.ttl, valid_until(sent, entry.ttl, entry.ttl));
        Ok(match state {
            EntryState::Admitted { token } => Standing::Admitted { token, ttl, valid_until },
            EntryState::Waiting { token, ahead, holder, look_again, hints } => Standing::Waiting {
                token,
                ttl,
                valid_until,
                ahead,
                holder: Some(Holder::Ours { label: holder }),
                // Counted from now: a look that comes too early has to be repeated.
                look_again: self.keeper.now() + Duration::from_nanos(look_again),
                hints,
            },
            EntryState::Busy => Standing::Busy,
            EntryState::Gone => Standing::Gone,
        })
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let (asked, sent): (Arc<[Lease]>, _) = (leases.into(), self.keeper.now());
        let renewed = self.call(move |store, give_up| {
            store.write(give_up, |transaction| {
                asked.iter().map(|lease| renew::renew(transaction, lease)).collect::<Result<Vec<_>, _>>()
            })
        });
        let renewal = |(lease, renewed): (&Lease, bool)| {
            let valid_until = valid_until(sent, lease.entry.ttl, lease.entry.ttl);
            Ok(if renewed { Renewal::Renewed { valid_until } } else { Renewal::Lost })
        };
        match renewed.await {
            Ok(renewed) => leases.iter().zip(renewed).map(renewal).collect(),
            // The leases share one transaction, and so its error.
            Err(error) => leases.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let (name, id, ttl) = (entry.name.clone(), entry.id, entry.ttl);
        self.run(move |transaction| {
            if creates == Creates::InDoubt {
                transaction.tombstones.insert(id, ttl, SystemClock.now());
            }
            leave::leave(transaction, &name, id).map(|(departure, _)| departure)
        })
        .await
    }

    /// Nothing to do: the store has only entries, and the files of this process, which are removed with the backend.
    async fn give_back(&self) {}

    fn alarms(&self) -> Alarms {
        self.handle.executor.notifier.alarms()
    }

    fn guarantees(&self) -> &Guarantees {
        &guarantees::SQLITE
    }

    fn operator(&self) -> &dyn Operator {
        self
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{Claim, EntryId, LockName};

    use super::*;

    /// Each lease of a batch gets the same error: with its advice, and whether anything was sent.
    #[tokio::test]
    async fn a_fork_is_told_once_what_to_do_and_so_is_each_of_its_leases() {
        let folder = tempfile::tempdir().unwrap();
        let config = SqliteConfig { path: Some(folder.path().join("locks.db")), ..SqliteConfig::default() };
        let mut sqlite = Sqlite::connect(config, &Keeper::start().unwrap()).await.unwrap();
        // As if another process had connected.
        sqlite.pid = 0;
        let error = sqlite.process_file().await.unwrap_err();
        let explained = error.explained().to_string();
        assert!(!explained.contains("check its address"), "{explained}");
        assert!(explained.ends_with("only in the forks, or execute a program there)"), "{explained}");
        let (name, id) = (LockName::new("job").unwrap(), EntryId::new(1));
        let entry = Arc::new(Entry::new(name, id, Claim::mutex(), Duration::from_secs(30)));
        let lease = Lease { entry, token: FencingToken::new(1) };
        for renewed in sqlite.renew(&[lease.clone(), lease]).await {
            let error = renewed.unwrap_err();
            assert!(error.is_unsent());
            assert_eq!(error.explained().to_string(), explained);
        }
    }

    /// PR35: one slow store would block all others.
    #[tokio::test]
    async fn the_keepers_own_thread_carries_nothing_out() {
        let folder = tempfile::tempdir().unwrap();
        let config = SqliteConfig { path: Some(folder.path().join("locks.db")), ..SqliteConfig::default() };
        let keeper = Keeper::start().unwrap();
        let sqlite = Arc::new(Sqlite::connect(config, &keeper).await.unwrap());
        let (tell, told) = oneshot::channel();
        let there = Arc::clone(&sqlite);
        keeper.spawn(async move { tell.send(there.may_run_inline()).unwrap() });
        assert!(!told.await.unwrap(), "on the thread of the keeper");
        assert!(sqlite.may_run_inline(), "on the thread of a caller");
    }
}
