//! [`ConnectionPool`]: the connections to one cluster, one for each runtime that calls.

use std::{
    mem,
    sync::{Arc, OnceLock},
};

use lock_core::{
    BackendErrorKind as Kind, Keeper, LogThrottle,
    sync::{Mutex, MutexGuard},
};
use tokio::runtime::{Handle, Id};

use super::{channel::Channel, cluster::Cluster, connection::Connection, hedge_budget::HedgeBudget};
use crate::error::Failure;

/// The connections to one cluster.
///
/// A caller is served by the runtime it runs on: no thread hop on the way, and a runtime that is blocked or shut down
/// stalls only its own callers. The keeper has a connection as well, which also serves callers without a tokio runtime.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    pub(super) cluster: Arc<Cluster>,
    pub(super) keeper: Keeper,
    /// The keeper's own runtime, as soon as it is known.
    keeper_runtime: Arc<OnceLock<Id>>,
    /// For requests that are sent beside others that are not answered.
    pub(super) hedges: HedgeBudget,
    /// What everybody who has it says of the cluster.
    pub(super) throttle: LogThrottle<&'static str>,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    /// At most one that is not closed for each runtime; few, for a process has few runtimes.
    all: Vec<Arc<Connection>>,
    /// Runtimes that cannot drive a connection. The keeper serves their callers.
    without_io: Vec<Id>,
}

impl ConnectionPool {
    pub(super) fn new(cluster: Arc<Cluster>, keeper: Keeper) -> Self {
        let keeper_runtime = Arc::new(OnceLock::new());
        let told = Arc::clone(&keeper_runtime);
        // Runs before any verb that the keeper runs for us.
        keeper.spawn(async move { told.set(Handle::current().id()).unwrap_or_default() });
        let throttle = LogThrottle::new(&keeper);
        Self {
            cluster,
            keeper,
            keeper_runtime,
            hedges: HedgeBudget::new(),
            throttle,
            connections: Mutex::default(),
        }
    }

    /// The connection for the caller, which may still be opening.
    pub(super) fn connection(self: &Arc<Self>) -> Arc<Connection> {
        let current = Handle::try_current().ok();
        let runtime = current.as_ref().map(Handle::id).filter(|id| self.keeper_runtime.get() != Some(id));
        let mut connections = self.lock();
        let runtime = runtime.filter(|id| !connections.without_io.contains(id));
        if let Some(connection) =
            connections.all.iter().find(|connection| connection.runtime == runtime && !connection.is_closed())
        {
            return Arc::clone(connection);
        }
        let pool = Arc::downgrade(self);
        let on_close = Box::new(move |connection: &Arc<Connection>, without_io: bool| {
            if let Some(pool) = pool.upgrade() {
                pool.remove(connection, without_io);
            }
        });
        let (cluster, keeper) = (Arc::clone(&self.cluster), self.keeper.clone());
        let (connection, drive) = Connection::new(runtime, cluster, keeper, on_close);
        connections.all.push(Arc::clone(&connection));
        // Only now: a runtime that is being shut down drops the task at once, and that comes back to `remove`.
        drop(connections);
        match current {
            Some(current) if runtime.is_some() => drop(current.spawn(drive)),
            _ => self.keeper.spawn(drive),
        }
        connection
    }

    /// A connection that is open, and what to send requests on.
    pub(super) async fn connect(self: &Arc<Self>) -> Result<(Arc<Connection>, Arc<Channel>), Failure> {
        loop {
            let connection = self.connection();
            match connection.channel(&self.cluster, &self.keeper).await {
                Ok(channel) => return Ok((connection, channel)),
                // The caller's runtime has no I/O, or no timers; the keeper's has both.
                Err(failure) if *failure.kind() == Kind::Panicked && connection.runtime.is_some() => {}
                Err(failure) => {
                    self.retire(&connection);
                    return Err(failure.unsent());
                }
            }
        }
    }

    /// Gives no more requests to a connection. It lives on while somebody waits for an answer on it.
    pub(super) fn retire(&self, connection: &Arc<Connection>) {
        self.remove(connection, false);
    }

    /// The same, because of the member: the next connection is opened to another one, if there is one.
    pub(super) fn fail(&self, connection: &Arc<Connection>, channel: &Channel) {
        self.cluster.avoid(channel.endpoint);
        if connection.runtime.is_none() {
            // The keeper is never blocked: what it finds is so for all.
            let mut connections = self.lock();
            let there = |one: &Arc<Connection>| {
                one.open_channel().is_some_and(|opened| opened.endpoint == channel.endpoint)
            };
            let (gone, kept): (Vec<_>, Vec<_>) = mem::take(&mut connections.all).into_iter().partition(there);
            connections.all = kept;
            drop(connections);
            drop(gone);
        }
        self.remove(connection, false);
    }

    pub(super) fn remove(&self, connection: &Arc<Connection>, without_io: bool) {
        let mut connections = self.lock();
        let (gone, kept) = mem::take(&mut connections.all)
            .into_iter()
            .partition(|one| Arc::ptr_eq(one, connection) || one.is_closed());
        connections.all = kept;
        connections.without_io.extend(connection.runtime.filter(|_| without_io));
        drop(connections);
        // Only now: the last one to have a connection aborts its task, and that is code of others.
        let gone: Vec<Arc<Connection>> = gone;
        drop(gone);
    }

    /// A connection of this runtime that is open to a channel that was made for a test.
    #[cfg(test)]
    pub(super) fn put(&self, channel: Channel) {
        self.lock().all.push(Connection::open_for_test(channel, Some(Handle::current().id())));
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock()
    }
}
