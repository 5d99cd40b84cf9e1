//! [`ConnectionPool`]: the connections to one server, one for each runtime that calls.

use std::{mem, sync::Arc};

use lock_core::{
    Keeper,
    sync::{Mutex, MutexGuard},
};

use super::{
    connection::{Connection, Owner},
    endpoint::Endpoint,
    role_check::RoleCheck,
    runtime_selector::RuntimeSelector,
};

/// The connections to one server, one for each runtime that the [`RuntimeSelector`] names.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) runtimes: Arc<RuntimeSelector>,
    pub(super) role_check: Arc<RoleCheck>,
    /// At most one open connection for each runtime. A `Vec` suffices, for a process has few runtimes.
    connections: Mutex<Vec<Arc<Connection>>>,
}

impl ConnectionPool {
    pub(super) fn new(endpoint: Arc<Endpoint>, runtimes: Arc<RuntimeSelector>) -> Self {
        Self { endpoint, runtimes, role_check: Arc::default(), connections: Mutex::default() }
    }

    pub(super) fn keeper(&self) -> &Keeper {
        &self.runtimes.keeper
    }

    /// The connection for the calling task, which may still be opening.
    pub(super) fn connection(self: &Arc<Self>) -> Arc<Connection> {
        let runtime = self.runtimes.current();
        let id = runtime.as_ref().map(tokio::runtime::Handle::id);
        let mut connections = self.lock();
        if let Some(connection) =
            connections.iter().find(|connection| connection.runtime == id && !connection.is_closed())
        {
            return Arc::clone(connection);
        }
        let (endpoint, role_check) = (Arc::clone(&self.endpoint), Arc::clone(&self.role_check));
        let owner = Arc::downgrade(self);
        let (connection, task) = Connection::new(id, endpoint, self.keeper().clone(), role_check, owner);
        connections.push(Arc::clone(&connection));
        // Not locked: a runtime that is shutting down drops the task at once, which calls `retire`.
        drop(connections);
        self.runtimes.spawn(runtime.as_ref(), task);
        connection
    }

    /// Gives no more commands to a connection. It stays open while a call waits for an answer on it.
    pub(super) fn retire(&self, connection: &Arc<Connection>) {
        let mut connections = self.lock();
        let (gone, kept) = mem::take(&mut *connections)
            .into_iter()
            .partition(|one| Arc::ptr_eq(one, connection) || one.is_closed());
        *connections = kept;
        drop(connections);
        // Not locked: dropping the last reference aborts the task, which runs foreign code.
        let gone: Vec<Arc<Connection>> = gone;
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.connections.lock()
    }
}

impl Owner for ConnectionPool {
    fn connection_ended(&self, connection: &Arc<Connection>, without_io: bool) {
        if let Some(runtime) = connection.runtime.filter(|_| without_io) {
            self.runtimes.mark_without_io(runtime);
        }
        self.retire(connection);
    }
}
