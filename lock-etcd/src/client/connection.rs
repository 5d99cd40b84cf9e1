//! [`Connection`]: one connection for requests, driven by the runtime that opened it.

use std::{
    fmt,
    future::{Future, pending},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use futures_util::future::{AbortHandle, Abortable};
use lock_core::{BackendErrorKind as Kind, BootTime, Keeper};
use tokio::{net::UdpSocket, runtime::Id, sync::SetOnce};

use super::{channel::Channel, cluster::Cluster};
use crate::error::Failure;

/// Called when a connection is closed; true if that was because its runtime has no I/O.
pub(super) type OnClose = Box<dyn FnOnce(&Arc<Connection>, bool) + Send + Sync>;

/// A connection: opening, open, or closed for good. Then the next request gets another one.
///
/// One task opens it. The connection's own tasks live on the same runtime; the task waits for the end of that, and ends
/// when nobody has the connection any more.
pub(super) struct Connection {
    /// The runtime that drives it; `None` for the keeper's.
    pub(super) runtime: Option<Id>,
    channel: SetOnce<Result<Arc<Channel>, Failure>>,
    /// When it has to be open.
    open_by: BootTime,
    closed: AtomicBool,
    task: AbortHandle,
}

impl Connection {
    /// A connection, and the task to be spawned on its runtime.
    pub(super) fn new(
        runtime: Option<Id>,
        cluster: Arc<Cluster>,
        keeper: Keeper,
        on_close: OnClose,
    ) -> (Arc<Self>, impl Future<Output = ()> + Send + 'static) {
        let (task, registration) = AbortHandle::new_pair();
        let open_by = keeper.now() + cluster.config.server.connect_timeout;
        let connection = Arc::new(Self {
            runtime,
            channel: SetOnce::new(),
            open_by,
            closed: AtomicBool::new(false),
            task,
        });
        let guard = CloseGuard { connection: Arc::downgrade(&connection), on_close: Some(on_close) };
        let driven = Abortable::new(run(guard, cluster, keeper, open_by), registration);
        // Aborted or not: the guard tells.
        let drive = async move { driven.await.unwrap_or_default() };
        (connection, drive)
    }

    /// One that is open, and that nobody drives.
    #[cfg(test)]
    pub(super) fn open_for_test(channel: Channel, runtime: Option<Id>) -> Arc<Self> {
        let channel = SetOnce::new_with(Some(Ok(Arc::new(channel))));
        let (task, _) = AbortHandle::new_pair();
        Arc::new(Self {
            runtime,
            channel,
            open_by: BootTime::FAR_FUTURE,
            closed: AtomicBool::new(false),
            task,
        })
    }

    /// Whether no request should be given to it any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The connection, if it is open.
    pub(super) fn open_channel(&self) -> Option<&Arc<Channel>> {
        self.channel.get()?.as_ref().ok()
    }

    /// The connection, as soon as it is open.
    pub(super) async fn channel(&self, cluster: &Cluster, keeper: &Keeper) -> Result<Arc<Channel>, Failure> {
        if let Some(channel) = self.channel.get() {
            return channel.clone();
        }
        // The task has the same limit, but the runtime that has to run it may be blocked.
        match keeper.timeout_at(self.open_by, self.channel.wait()).await {
            Some(channel) => channel.clone(),
            None => Err(too_slow(cluster)),
        }
    }
}

/// Opens the connection, and waits for its end.
async fn run(guard: CloseGuard, cluster: Arc<Cluster>, keeper: Keeper, open_by: BootTime) {
    // A runtime without timers or without I/O panics here, where it is seen, and not in the tasks of the connection.
    drop(tokio::time::sleep(Duration::ZERO));
    drop(UdpSocket::bind(("127.0.0.1", 0)).await);
    let opened =
        keeper.timeout_at(open_by, cluster.open(&keeper)).await.unwrap_or_else(|| Err(too_slow(&cluster)));
    // A keeper that only a task of its own still has would never end.
    drop(keeper);
    match opened {
        Ok(channel) => {
            tracing::debug!(member = %channel.address, "etcd connection opened");
            guard.publish(Ok(Arc::new(channel)));
            pending::<()>().await;
        }
        Err(failure) => {
            tracing::debug!(cluster = %cluster.config, "etcd connection not opened: {failure}");
            guard.publish(Err(failure));
        }
    }
}

fn too_slow(cluster: &Cluster) -> Failure {
    Failure::timed_out(&cluster.config, "opening a connection", cluster.config.server.connect_timeout)
}

/// Closes the connection however its task ends: aborted, with its runtime, in a panic.
struct CloseGuard {
    connection: Weak<Connection>,
    on_close: Option<OnClose>,
}

impl CloseGuard {
    fn publish(&self, channel: Result<Arc<Channel>, Failure>) {
        if let Some(connection) = self.connection.upgrade() {
            if channel.is_err() {
                // First, so that a task that the failure wakes does not find the connection again.
                connection.closed.store(true, Ordering::Release);
            }
            // The only other one to set it is the end of this task.
            let _ = connection.channel.set(channel);
        }
    }
}

impl Drop for CloseGuard {
    fn drop(&mut self) {
        let Some(connection) = self.connection.upgrade() else { return };
        connection.closed.store(true, Ordering::Release);
        if let Some(on_close) = self.on_close.take() {
            // Tokio panics where a runtime was built without its drivers, and has no other way to tell.
            let without_io = thread::panicking() && !connection.channel.initialized();
            on_close(&connection, without_io);
        }
        let failure = if thread::panicking() {
            Failure::new(Kind::Panicked, "opening a connection panicked")
        } else {
            Failure::new(Kind::Unreachable, "the runtime that opened the connection was shut down")
        };
        // Nobody waits for it if it is set.
        let _ = connection.channel.set(Err(failure));
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
