//! [`ConnectionPool`]: the connections of a backend, at most one for each runtime and target.

use std::{fmt, mem, sync::Arc};

use tokio::runtime::Handle;

use super::{
    connector::Connector,
    pooled_connection::{OpenConnection, Owner, PooledConnection},
    runtime_selector::RuntimeSelector,
};
use crate::{Keeper, sync::Mutex};

/// The connections of a backend: at most one that takes requests for each runtime and [target](Connector::Target), which says which server
/// it leads to and what it is for. It carries any number of requests at the same time. Cheap to clone; dropping the last clone closes the
/// connections, except those on which a call still waits.
///
/// * A connection is opened and driven on the runtime of the task that asks for it first. Callers without a runtime, or on one that cannot
///   drive a connection, share those of the keeper: see [`RuntimeSelector`].
/// * All callers share an attempt to connect, and its failure; the next caller makes another attempt. Each waits until the
///   [time limit](Connector::connect_timeout), which is counted on the keeper's timers: it holds while the runtime that opens the
///   connection is blocked.
/// * A connection that has ended, whose runtime was shut down, or that was [retired](Self::retire), gets no more requests: the next caller
///   gets another. A connection that was retired too early can be [taken back](Self::take_back). Nothing is sent twice here.
///
/// ```
/// use std::{future::pending, sync::Arc, time::Duration};
///
/// use async_trait::async_trait;
/// use lock_core::{BackendErrorKind, ConnectionPool, ConnectionTask, Connector, Keeper, RuntimeSelector};
///
/// #[derive(Debug)]
/// struct Cluster;
///
/// #[async_trait]
/// impl Connector for Cluster {
///     /// The number of a node.
///     type Target = usize;
///     type Connection = String;
///     type Failure = String;
///
///     async fn open(&self, node: &usize, _keeper: &Keeper) -> Result<(String, ConnectionTask), String> {
///         Ok((format!("a connection to node {node}"), Box::pin(pending())))
///     }
///
///     fn connect_timeout(&self) -> Duration {
///         Duration::from_secs(2)
///     }
///
///     fn timed_out(&self, node: &usize) -> String {
///         format!("opening a connection to node {node} took too long")
///     }
///
///     fn failure(&self, _kind: BackendErrorKind, message: &'static str) -> String {
///         message.to_owned()
///     }
///
///     fn not_opened(&self, node: &usize, failure: &String) {
///         eprintln!("node {node}: {failure}");
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), String> {
/// let runtimes = Arc::new(RuntimeSelector::new(Keeper::shared()));
/// let pool = ConnectionPool::new(Arc::new(Cluster), runtimes);
/// let (first, connection) = pool.connect(&1).await?;
/// assert_eq!(connection, "a connection to node 1");
/// let (again, _) = pool.connect(&1).await?;
/// assert!(Arc::ptr_eq(&first, &again), "this runtime has one connection to this node");
/// # Ok(())
/// # }
/// ```
pub struct ConnectionPool<C: Connector>(Arc<Inner<C>>);

struct Inner<C: Connector> {
    connector: Arc<C>,
    runtimes: Arc<RuntimeSelector>,
    /// At most one that is not closed for each runtime and target. A `Vec` suffices: a process has few runtimes, and a store few servers.
    connections: Mutex<Vec<Arc<PooledConnection<C>>>>,
}

impl<C: Connector> ConnectionPool<C> {
    /// No connection is opened yet.
    #[must_use]
    pub fn new(connector: Arc<C>, runtimes: Arc<RuntimeSelector>) -> Self {
        Self(Arc::new(Inner { connector, runtimes, connections: Mutex::default() }))
    }

    /// What opens the connections.
    #[must_use]
    pub fn connector(&self) -> &Arc<C> {
        &self.0.connector
    }

    /// The keeper, whose clock counts all time limits.
    #[must_use]
    pub fn keeper(&self) -> &Keeper {
        self.0.runtimes.keeper()
    }

    /// The connection for the calling task, which may still be opening. Begins to open it if there is none, or if the runtime of the last
    /// attempt did not run until its time was over.
    #[must_use]
    pub fn connection(&self, target: &C::Target) -> Arc<PooledConnection<C>> {
        let Inner { connector, runtimes, connections } = &*self.0;
        let runtime = runtimes.current();
        let id = runtime.as_ref().map(Handle::id);
        let now = runtimes.keeper().now();
        let mut connections = connections.lock();
        let found = connections.iter().position(|one| one.serves(id, target) && !one.is_closed());
        let overdue = match found {
            Some(at) if connections[at].is_overdue(now) => Some(connections.swap_remove(at)),
            Some(at) => return Arc::clone(&connections[at]),
            None => None,
        };
        let (connector, keeper, owner) =
            (Arc::clone(connector), runtimes.keeper().clone(), Arc::downgrade(&self.0));
        let (connection, task) = PooledConnection::new(id, target.clone(), connector, keeper, owner);
        connections.push(Arc::clone(&connection));
        // Not locked: dropping the last reference aborts the task, which runs foreign code; and a runtime that is shutting down drops the
        // new task immediately, which comes back to `connection_ended`.
        drop(connections);
        drop(overdue);
        runtimes.spawn(runtime.as_ref(), task);
        connection
    }

    /// The connection for the calling task, once it is open.
    ///
    /// # Errors
    /// The failure of the attempt to open it. No request was sent.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait. The attempt goes on for other callers, unless the connection was retired meanwhile.
    pub async fn connect(&self, target: &C::Target) -> Result<OpenConnection<C>, C::Failure> {
        let Inner { connector, runtimes, .. } = &*self.0;
        loop {
            let pooled = self.connection(target);
            // The loop takes the connection that was taken back.
            let Some(opened) = pooled.opened_unless_replaced(connector, runtimes.keeper()).await else {
                continue;
            };
            match opened {
                Ok(connection) => return Ok((pooled, connection)),
                // The caller's runtime cannot drive a connection: the loop takes the keeper's.
                Err(attempt) if attempt.panicked && !pooled.is_on_keeper() => {}
                Err(attempt) => {
                    self.retire(&pooled);
                    return Err(attempt.failure);
                }
            }
        }
    }

    /// Gives no more requests to a connection. It stays open while a call waits for an answer on it.
    pub fn retire(&self, connection: &Arc<PooledConnection<C>>) {
        self.0.remove(|one| Arc::ptr_eq(one, connection));
    }

    /// Gives requests to a retired connection again: it was retired because an answer was late, and the answer has come. Callers that wait
    /// for another one to open get this one immediately. Where another one is open already, or this one has ended, nothing changes.
    pub fn take_back(&self, connection: &Arc<PooledConnection<C>>) {
        let mut connections = self.0.connections.lock();
        if connection.is_closed() {
            return;
        }
        let mut in_its_place = connections.iter_mut().filter(|one| connection.is_for_the_same(one));
        let Some(other) = in_its_place.find(|one| !one.is_closed()) else {
            return connections.push(Arc::clone(connection));
        };
        if other.get().is_some() {
            return;
        }
        let opening = mem::replace(other, Arc::clone(connection));
        drop(connections);
        // Not locked: this wakes callers, and dropping the last reference aborts the task; both run foreign code.
        opening.mark_replaced();
        drop(opening);
    }

    /// [Retires](Self::retire) all open connections that `matches` finds. The pool is locked meanwhile: `matches` must not use it.
    pub fn retire_where(&self, matches: impl Fn(&C::Connection) -> bool) {
        self.0.remove(|one| one.get().is_some_and(&matches));
    }
}

impl<C: Connector> Inner<C> {
    /// Removes these connections, and all that are closed.
    fn remove(&self, goes: impl Fn(&Arc<PooledConnection<C>>) -> bool) {
        let mut connections = self.connections.lock();
        let (gone, kept): (Vec<_>, Vec<_>) =
            mem::take(&mut *connections).into_iter().partition(|one| goes(one) || one.is_closed());
        *connections = kept;
        drop(connections);
        // Not locked: dropping the last reference aborts the task, which runs foreign code.
        drop(gone);
    }
}

impl<C: Connector> Owner<C> for Inner<C> {
    fn connection_ended(&self, connection: &Arc<PooledConnection<C>>, without_io: bool) {
        if let Some(runtime) = connection.runtime().filter(|_| without_io) {
            self.runtimes.mark_without_io(runtime);
        }
        self.remove(|one| Arc::ptr_eq(one, connection));
    }
}

impl<C: Connector> Clone for ConnectionPool<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Connector> fmt::Debug for ConnectionPool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPool")
            .field("connector", &self.0.connector)
            .field("connections", &self.0.connections)
            .finish_non_exhaustive()
    }
}
