//! [`Connection`]: one connection for commands, driven by the runtime that it was opened on.

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

use super::{batcher::Batcher, endpoint::Endpoint, role_check::RoleCheck};
use crate::error::{self, Failure, connection_ended};

/// One pipelined connection: being opened, open, or closed. A closed one is never opened again: the next command gets another.
///
/// One task opens it and then drives it. The task ends when the connection does, with its runtime, or when the last
/// reference to the connection is dropped.
pub(super) struct Connection {
    /// The runtime that drives it. `None`: the keeper's.
    pub(super) runtime: Option<Id>,
    multiplexed: SetOnce<Result<MultiplexedConnection, Failure>>,
    /// The verbs that wait to be sent.
    pub(super) batcher: Arc<Batcher>,
    /// When it has to be open.
    open_by: BootTime,
    closed: AtomicBool,
    task: AbortHandle,
}

/// The owner of a connection, which is told of its end.
pub(super) trait Owner: Send + Sync {
    /// The connection has ended, or could not be opened. `without_io`: because its runtime cannot drive one.
    fn connection_ended(&self, connection: &Arc<Connection>, without_io: bool);
}

impl Connection {
    /// A connection, and the task that has to be spawned on its runtime.
    pub(super) fn new(
        runtime: Option<Id>,
        endpoint: Arc<Endpoint>,
        keeper: Keeper,
        role_check: Arc<RoleCheck>,
        owner: Weak<dyn Owner>,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (task, registration) = AbortHandle::new_pair();
        let open_by = keeper.now() + endpoint.config.server.connect_timeout;
        let batcher = Arc::new(Batcher::default());
        let connection = Arc::new(Self {
            runtime,
            multiplexed: SetOnce::new(),
            batcher: Arc::clone(&batcher),
            open_by,
            closed: AtomicBool::new(false),
            task,
        });
        let end_guard = EndGuard { connection: Arc::downgrade(&connection), owner };
        let driven = Abortable::new(
            open_and_drive(end_guard, endpoint, keeper, role_check, open_by, batcher),
            registration,
        );
        // Aborted or not: the guard tells.
        let drive = async move { driven.await.unwrap_or_default() };
        (connection, drive)
    }

    /// Whether it takes no more commands.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The connection, as soon as it is open.
    pub(super) async fn opened(
        &self,
        endpoint: &Endpoint,
        keeper: &Keeper,
    ) -> Result<MultiplexedConnection, Failure> {
        if let Some(multiplexed) = self.multiplexed.get() {
            return multiplexed.clone();
        }
        // The task has the same limit, but its runtime may be blocked.
        match keeper.timeout_at(self.open_by, self.multiplexed.wait()).await {
            Some(multiplexed) => multiplexed.clone(),
            None => Err(too_slow(endpoint)),
        }
    }

    /// Sends a command behind all that was sent before, as soon as there is room, and ignores its answer.
    pub(super) fn send_without_answer(
        &self,
        command: Cmd,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        let multiplexed = self.multiplexed.get().and_then(|multiplexed| multiplexed.as_ref().ok()).cloned();
        async move {
            if let Some(mut multiplexed) = multiplexed {
                // A connection that has ended takes nothing.
                let _ = multiplexed.send_packed_command(&command).await;
            }
        }
    }
}

/// Opens the connection, and drives it until it ends.
async fn open_and_drive(
    end_guard: EndGuard,
    endpoint: Arc<Endpoint>,
    keeper: Keeper,
    role_check: Arc<RoleCheck>,
    open_by: BootTime,
    batcher: Arc<Batcher>,
) {
    let opened = keeper.timeout_at(open_by, open(&endpoint, &keeper, &role_check)).await;
    let opened = opened.unwrap_or_else(|| Err(too_slow(&endpoint)));
    // A keeper that is kept alive by a task of its own would never end.
    drop(keeper);
    match opened {
        Ok((multiplexed, driver)) => {
            tracing::debug!(server = %endpoint.address, "redis connection opened");
            end_guard.publish(Ok(multiplexed.clone()));
            batcher.drive(multiplexed, driver).await;
            // Before the connection is closed: then the next one is opened.
            role_check.mark_doubtful();
            tracing::debug!(server = %endpoint.address, "redis connection ended");
        }
        Err(failure) => {
            tracing::debug!(server = %endpoint.address, "redis connection not opened: {}", failure.message());
            end_guard.publish(Err(failure));
        }
    }
}

/// What the driver sends first, which is nothing: our own [handshake](super::handshake) has sent it all.
pub(crate) static DRIVER_SETUP: LazyLock<RedisConnectionInfo> =
    LazyLock::new(|| RedisConnectionInfo::default().set_skip_set_lib_name());

async fn open(
    endpoint: &Endpoint,
    keeper: &Keeper,
    role_check: &RoleCheck,
) -> Result<(MultiplexedConnection, impl Future<Output = ()> + Send + Unpin + 'static + use<>), Failure> {
    let socket = endpoint.open_in_turn(keeper).await?;
    // The driver's timers would need a runtime with timers.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let ready = MultiplexedConnection::new_with_config(&DRIVER_SETUP, socket, config).await;
    let (multiplexed, driver) = ready.map_err(|error| broken(endpoint, Kind::Protocol, &error))?;
    let driver = Box::pin(driver);
    if !role_check.is_doubtful() {
        return Ok((multiplexed, driver));
    }
    let asked = ask_for_role(multiplexed.clone(), driver).await;
    let (answer, driver) = asked.map_err(|error| broken(endpoint, error::kind_of_failure(&error), &error))?;
    role_check.check(&answer, &endpoint.address, keeper.now())?;
    Ok((multiplexed, driver))
}

/// Asks the server for its role on a connection that is not driven yet. Gives the driver back.
async fn ask_for_role<D: Future<Output = ()> + Send + Unpin>(
    mut multiplexed: MultiplexedConnection,
    driver: D,
) -> RedisResult<(Value, D)> {
    let mut hello = Cmd::new();
    hello.arg("HELLO");
    let answer = pin!(multiplexed.send_packed_command(&hello));
    match select(answer, driver).await {
        Either::Left((answer, driver)) => Ok((answer?, driver)),
        // The driver has ended, so the answer is why.
        Either::Right(((), answer)) => Err(answer.await.err().unwrap_or_else(connection_ended)),
    }
}

fn broken(endpoint: &Endpoint, kind: Kind, error: &RedisError) -> Failure {
    let said = excerpt(format_args!("{error}"));
    Failure::new(kind, format!("the connection to {} failed: {said}", endpoint.address))
}

fn too_slow(endpoint: &Endpoint) -> Failure {
    Failure::timed_out(&endpoint.address, "opening a connection", endpoint.config.server.connect_timeout)
}

/// Marks the connection as closed, however its task ends: aborted, with its runtime, in a panic.
struct EndGuard {
    connection: Weak<Connection>,
    owner: Weak<dyn Owner>,
}

impl EndGuard {
    fn publish(&self, multiplexed: Result<MultiplexedConnection, Failure>) {
        if let Some(connection) = self.connection.upgrade() {
            if multiplexed.is_err() {
                // First, so that a task that is woken by the failure does not find the connection again.
                connection.closed.store(true, Ordering::Release);
            }
            // Only the end of this task sets it as well.
            let _ = connection.multiplexed.set(multiplexed);
        }
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        let Some(connection) = self.connection.upgrade() else { return };
        connection.closed.store(true, Ordering::Release);
        connection.batcher.close();
        if let Some(owner) = self.owner.upgrade() {
            // Tokio panics where a runtime was built without its I/O driver, and has no other way to tell.
            let without_io = thread::panicking() && !connection.multiplexed.initialized();
            owner.connection_ended(&connection, without_io);
        }
        let failure = if thread::panicking() {
            Failure::new(Kind::Panicked, "opening a connection panicked")
        } else {
            Failure::new(Kind::Unreachable, "the runtime that opened the connection was shut down")
        };
        // If it is set already, no task waits for it.
        let _ = connection.multiplexed.set(Err(failure));
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("runtime", &self.runtime)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
