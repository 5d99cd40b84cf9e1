//! [`Sqlite`]: the verbs on one file, each one transaction.

use std::{
    fmt,
    fs::File,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use lock_core::{
    Alarms, Backend, BackendError, BackendErrorKind, Creates, Departure, Entry, FencingToken, Guarantees,
    Holder, Keeper, Lease, Operator, Renewal, Standing, Step, WaitMode, valid_until,
};

use crate::{
    ConnectError, SqliteConfig,
    error::{STORE, of_io},
    files::Files,
    guarantees,
    post::Hall,
    store::Store,
    verbs::{self, Look},
    worker::{self, Job},
};

/// Locks between the processes of one machine, over one file. Make one for a process, and share it.
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
    pub(crate) hall: Hall,
    config: SqliteConfig,
    jobs: Sender<Job>,
    /// The process that started the thread: a fork has no such thread.
    pid: u32,
}

impl Sqlite {
    /// A backend that opens the file when it is first used.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is wrong, or a thread cannot be started.
    pub fn new(config: SqliteConfig, keeper: &Keeper) -> Result<Self, ConnectError> {
        config.validate()?;
        let files = Files::new(config.path.as_deref()).map_err(ConnectError::Store)?;
        let hall = Hall::default();
        let (jobs, todo) = channel();
        let store = Store::new(files.clone(), hall.clone(), config.command_timeout);
        worker::start(todo, store).map_err(|error| {
            ConnectError::Store(of_io("starting a thread for", &files.database, error).unsent())
        })?;
        Ok(Self { keeper: keeper.clone(), files, hall, config, jobs, pid: std::process::id() })
    }

    /// The same, after the file was opened, or made, and found to be one that can be used.
    ///
    /// # Errors
    /// [`ConnectError`] if the configuration is wrong; the file cannot be opened or made, is damaged, read-only, of a newer
    /// version, or something else; or is where locks cannot be kept, as on a network file system.
    ///
    /// # Cancel safety
    /// Safe to drop: nothing is taken.
    pub async fn connect(config: SqliteConfig, keeper: &Keeper) -> Result<Self, ConnectError> {
        let sqlite = Self::new(config, keeper)?;
        sqlite.call(Store::open).await.map_err(ConnectError::Store)?;
        Ok(sqlite)
    }

    /// The file by which others see that this process lives, once more. Whoever has it open, as a child process that
    /// inherits it, is taken for the holder: only when all are gone is a lock free before its ttl ends. It is closed in
    /// programs that are executed, unless `FD_CLOEXEC` is taken from it.
    ///
    /// # Errors
    /// [`BackendError`] if the file cannot be opened.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub async fn process_file(&self) -> Result<File, BackendError> {
        self.call(Store::process_file).await
    }

    /// Goes on as if `last` had been minted, in every name: for whoever moves to a new file, and knows the largest token
    /// of the old one. Never goes back.
    ///
    /// # Errors
    /// [`BackendError`] if the file cannot be written.
    ///
    /// # Cancel safety
    /// It may be done or not.
    pub async fn raise_tokens(&self, last: FencingToken) -> Result<(), BackendError> {
        self.call(move |store, give_up| store.raise_tokens(give_up, last)).await
    }

    /// Has something done by the thread of the file, in the order of the calls, and waits for its answer no longer than the
    /// time limit for a command.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store, Instant) -> Result<T, BackendError> + Send + 'static,
    ) -> Result<T, BackendError> {
        if std::process::id() != self.pid {
            let message = "this process is a fork of the one that opened the file; connect anew";
            return Err(BackendError::new(STORE, BackendErrorKind::Unreachable, message).unsent());
        }
        let limit = self.config.command_timeout;
        // It gives up before its caller does, and says what it waited for.
        let give_up = Instant::now() + limit * 7 / 8;
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |store: &mut Store| {
            // Nobody waits for it any more: whoever gave up sees to it that nothing is left.
            if !reply.is_canceled() {
                let _ = reply.send(work(store, give_up));
            }
        });
        if self.jobs.send(job).is_err() {
            return Err(panicked());
        }
        match select(answer, self.keeper.sleep_until(self.keeper.now() + limit)).await {
            Either::Left((answer, _)) => answer.unwrap_or_else(|_| Err(panicked())),
            Either::Right(_) => {
                let message = format!("{} was not done within {limit:?}", self.files.database.display());
                Err(BackendError::new(STORE, BackendErrorKind::TimedOut, message))
            }
        }
    }
}

fn panicked() -> BackendError {
    BackendError::new(STORE, BackendErrorKind::Panicked, "the thread of the file panicked")
}

#[async_trait]
impl Backend for Sqlite {
    async fn enter(&self, entry: &Entry, step: Step, wait: WaitMode) -> Result<Standing, BackendError> {
        // C6: who may have to wait listens first.
        let hints = (wait == WaitMode::Queue).then(|| self.hall.waiters.listen(entry.id));
        let asked = entry.clone();
        let sent = self.keeper.now();
        let look = self
            .call(move |store, give_up| {
                let closed = store.is_closed_to(asked.id);
                let look = store.write(give_up, |verb| verbs::enter(verb, &asked, step, wait, closed))?;
                if let Look::Waiting { token, .. } = &look {
                    store.hall.waiters.stands(asked.id, &asked.name, *token);
                }
                Ok(look)
            })
            .await?;
        let (ttl, valid_until) = (entry.ttl, valid_until(sent, entry.ttl, entry.ttl));
        Ok(match look {
            Look::Admitted { token } => Standing::Admitted { token, ttl, valid_until },
            Look::Waiting { token, ahead, holder, look_again } => Standing::Waiting {
                token,
                ttl,
                valid_until,
                ahead,
                holder: Some(Holder::Ours { label: holder }),
                // From now: who looks too early has to look twice.
                look_again: self.keeper.now() + Duration::from_nanos(look_again),
                // A try is never told to wait.
                hints: hints.unwrap_or_else(|| Box::pin(futures_util::stream::empty())),
            },
            Look::Busy => Standing::Busy,
            Look::Gone => Standing::Gone,
        })
    }

    async fn renew(&self, leases: &[Lease]) -> Vec<Result<Renewal, BackendError>> {
        let (asked, sent): (Arc<[Lease]>, _) = (leases.into(), self.keeper.now());
        let renewed = self.call(move |store, give_up| {
            store.write(give_up, |verb| {
                asked.iter().map(|lease| verbs::renew(verb, lease)).collect::<Result<Vec<_>, _>>()
            })
        });
        let renewal = |(lease, renewed): (&Lease, bool)| {
            let valid_until = valid_until(sent, lease.entry.ttl, lease.entry.ttl);
            Ok(if renewed { Renewal::Renewed { valid_until } } else { Renewal::Lost })
        };
        match renewed.await {
            Ok(renewed) => leases.iter().zip(renewed).map(renewal).collect(),
            // What happened to all happened to each.
            Err(error) => leases.iter().map(|_| Err(copy(&error))).collect(),
        }
    }

    async fn leave(&self, entry: &Entry, creates: Creates) -> Result<Departure, BackendError> {
        let (name, id, ttl) = (entry.name.clone(), entry.id, entry.ttl);
        self.call(move |store, give_up| {
            if creates == Creates::InDoubt {
                store.close_door(id, ttl);
            }
            store.write(give_up, |verb| verbs::leave(verb, &name, id).map(|(departure, _)| departure))
        })
        .await
    }

    fn alarms(&self) -> Alarms {
        Box::pin(self.hall.alarms())
    }

    fn guarantees(&self) -> &Guarantees {
        &guarantees::SQLITE
    }

    fn operator(&self) -> &dyn Operator {
        self
    }
}

fn copy(error: &BackendError) -> BackendError {
    let copy = BackendError::new(STORE, error.kind().clone(), message(error));
    if error.is_unsent() { copy.unsent() } else { copy }
}

/// What it says, without the name of the store.
fn message(error: &BackendError) -> String {
    let said = error.to_string();
    said.split_once(": ").map_or(said.clone(), |(_, message)| message.to_owned())
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("config", &self.config).finish_non_exhaustive()
    }
}
