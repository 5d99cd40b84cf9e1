//! [`Lane`]: one connection for commands, driven by the runtime that it was opened on.

use std::{
    fmt,
    future::Future,
    pin::pin,
    sync::{
        Arc, LazyLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use futures_util::future::{AbortHandle, Abortable, Either, select};
use lock_core::{BackendErrorKind as Kind, BootTime, Keeper, excerpt};
use redis::{
    AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, RedisResult, Value,
    aio::MultiplexedConnection,
};
use tokio::{runtime::Id, sync::SetOnce};

use super::{batches::Batches, by, demotion::Demotion, ended, endpoint::Endpoint, terminal::Terminal};
use crate::error::{self, Failure};

/// One pipelined connection: being opened, open, or over. Over is over: the next command gets another lane.
///
/// One task opens it and then drives it. The task ends when the connection does, with its runtime, or when nobody has
/// the lane any more.
pub(super) struct Lane {
    /// Whose it is: a runtime's, or the keeper's.
    pub(super) home: Option<Id>,
    link: SetOnce<Result<MultiplexedConnection, Failure>>,
    /// The verbs that wait until it is their turn.
    pub(super) batches: Arc<Batches>,
    /// When it has to be open.
    open_by: BootTime,
    over: AtomicBool,
    task: AbortHandle,
}

impl Lane {
    /// A lane, and the task that has to be spawned at its home.
    pub(super) fn new(
        home: Option<Id>,
        terminal: &Arc<Terminal>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (task, registration) = AbortHandle::new_pair();
        let (endpoint, keeper) = (Arc::clone(&terminal.endpoint), terminal.keeper().clone());
        let open_by = keeper.now() + endpoint.config.connect_timeout;
        let batches = Arc::new(Batches::default());
        let lane = Arc::new(Self {
            home,
            link: SetOnce::new(),
            batches: Arc::clone(&batches),
            open_by,
            over: AtomicBool::new(false),
            task,
        });
        let ending = Ending { lane: Arc::downgrade(&lane), terminal: Arc::downgrade(terminal) };
        let demotion = Arc::clone(&terminal.demotion);
        let driven = Abortable::new(run(ending, endpoint, keeper, demotion, open_by, batches), registration);
        // Aborted or not: the ending tells.
        let drive = async move { driven.await.unwrap_or_default() };
        (lane, drive)
    }

    /// Whether no command should be given to it any more.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The connection, as soon as it is open.
    pub(super) async fn connection(
        &self,
        endpoint: &Endpoint,
        keeper: &Keeper,
    ) -> Result<MultiplexedConnection, Failure> {
        if let Some(link) = self.link.get() {
            return link.clone();
        }
        // The task has the same limit, but the runtime that has to run it may be blocked.
        match by(keeper, self.open_by, self.link.wait()).await {
            Some(link) => link.clone(),
            None => Err(too_slow(endpoint)),
        }
    }

    /// Sends a command that has no answer, behind all that was sent before, as soon as there is room. Its end says nothing.
    pub(super) fn tell(&self, command: Cmd) -> impl Future<Output = ()> + Send + 'static + use<> {
        let connection = self.link.get().and_then(|link| link.as_ref().ok()).cloned();
        async move {
            if let Some(mut connection) = connection {
                // A connection that has ended takes nothing.
                let _ = connection.send_packed_command(&command).await;
            }
        }
    }
}

/// Opens the connection, and drives it until it ends.
async fn run(
    ending: Ending,
    endpoint: Arc<Endpoint>,
    keeper: Keeper,
    demotion: Arc<Demotion>,
    open_by: BootTime,
    batches: Arc<Batches>,
) {
    let opened = by(&keeper, open_by, open(&endpoint, &keeper, &demotion)).await;
    let opened = opened.unwrap_or_else(|| Err(too_slow(&endpoint)));
    // A keeper that only a task of its own still has would never end.
    drop(keeper);
    match opened {
        Ok((connection, driver)) => {
            tracing::debug!(server = %endpoint.address, "redis connection opened");
            ending.publish(Ok(connection.clone()));
            batches.drive(connection, driver).await;
            // First: once the lane is over, the next one is opened.
            demotion.doubt();
            tracing::debug!(server = %endpoint.address, "redis connection ended");
        }
        Err(failure) => {
            tracing::debug!(server = %endpoint.address, "redis connection not opened: {}", failure.message());
            ending.publish(Err(failure));
        }
    }
}

/// What a driver would say first, which is nothing: all is said.
pub(crate) static SAID: LazyLock<RedisConnectionInfo> =
    LazyLock::new(|| RedisConnectionInfo::default().set_skip_set_lib_name());

async fn open(
    endpoint: &Endpoint,
    keeper: &Keeper,
    demotion: &Demotion,
) -> Result<(MultiplexedConnection, impl Future<Output = ()> + Send + Unpin + 'static + use<>), Failure> {
    let socket = endpoint.open(keeper).await?;
    // Its own timers would need a runtime that has them.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let ready = MultiplexedConnection::new_with_config(&SAID, socket, config).await;
    let (connection, driver) = ready.map_err(|error| broken(endpoint, Kind::Protocol, &error))?;
    let driver = Box::pin(driver);
    if !demotion.is_doubted() {
        return Ok((connection, driver));
    }
    let asked = ask_for_role(connection.clone(), driver).await;
    let (answer, driver) = asked.map_err(|error| broken(endpoint, error::kind_of_failure(&error), &error))?;
    demotion.judge(&answer, &endpoint.address, keeper.now())?;
    Ok((connection, driver))
}

/// What a server says of itself on a connection that nobody drives yet, and the driver back.
async fn ask_for_role<D: Future<Output = ()> + Send + Unpin>(
    mut connection: MultiplexedConnection,
    driver: D,
) -> RedisResult<(Value, D)> {
    let mut hello = Cmd::new();
    hello.arg("HELLO");
    let answer = pin!(connection.send_packed_command(&hello));
    match select(answer, driver).await {
        Either::Left((answer, driver)) => Ok((answer?, driver)),
        // The driver is gone, so the answer is what became of the connection.
        Either::Right(((), answer)) => Err(answer.await.err().unwrap_or_else(ended)),
    }
}

fn broken(endpoint: &Endpoint, kind: Kind, error: &RedisError) -> Failure {
    let said = excerpt(format_args!("{error}"));
    Failure::new(kind, format!("the connection to {} failed: {said}", endpoint.address))
}

fn too_slow(endpoint: &Endpoint) -> Failure {
    Failure::timed_out(&endpoint.address, "opening a connection", endpoint.config.connect_timeout)
}

/// Says that the lane is over, however its task ends: aborted, with its runtime, in a panic.
struct Ending {
    lane: Weak<Lane>,
    terminal: Weak<Terminal>,
}

impl Ending {
    fn publish(&self, link: Result<MultiplexedConnection, Failure>) {
        if let Some(lane) = self.lane.upgrade() {
            if link.is_err() {
                // First, so that whoever is woken by the failure does not find the lane again.
                lane.over.store(true, Ordering::Release);
            }
            // The only other one to set it is the end of this task.
            let _ = lane.link.set(link);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(lane) = self.lane.upgrade() else { return };
        lane.over.store(true, Ordering::Release);
        lane.batches.close();
        if let Some(terminal) = self.terminal.upgrade() {
            // Tokio panics where a runtime was built without its I/O driver, and has no other way to tell.
            if let Some(home) = lane.home.filter(|_| thread::panicking() && !lane.link.initialized()) {
                terminal.homes.is_unfit(home);
            }
            terminal.retire(&lane);
        }
        let failure = if thread::panicking() {
            Failure::new(Kind::Panicked, "opening a connection panicked")
        } else {
            Failure::new(Kind::Unreachable, "the runtime that opened the connection was shut down")
        };
        // Nobody waits for it if it is set.
        let _ = lane.link.set(Err(failure));
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("home", &self.home).field("over", &self.over).finish_non_exhaustive()
    }
}
