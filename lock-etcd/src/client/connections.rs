//! [`Connections`]: the connections to one cluster, and what all requests on them share.

use std::sync::Arc;

use lock_core::{ConnectionPool, Keeper, LogThrottle, PooledConnection, RuntimeSelector};

use super::{channel::Channel, cluster::Cluster, hedge_budget::HedgeBudget};
use crate::error::Failure;

/// A connection, with its place in the pool.
pub(super) type Connection = PooledConnection<Cluster>;

/// The connections to one cluster, and what all requests on them share.
#[derive(Debug)]
pub(super) struct Connections {
    pool: ConnectionPool<Cluster>,
    /// Limits the requests that are sent beside others that are not answered.
    pub(super) hedges: HedgeBudget,
    /// The log of all users of these connections, at a limited rate.
    pub(super) throttle: LogThrottle<&'static str>,
}

impl Connections {
    pub(super) fn new(cluster: Arc<Cluster>, keeper: Keeper) -> Self {
        let throttle = LogThrottle::new(&keeper);
        let pool = ConnectionPool::new(cluster, Arc::new(RuntimeSelector::new(keeper)));
        Self { pool, hedges: HedgeBudget::new(), throttle }
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        self.pool.connector()
    }

    pub(super) fn keeper(&self) -> &Keeper {
        self.pool.keeper()
    }

    /// The connection of this runtime, if it is open.
    pub(super) fn open_connection(&self) -> Option<(Arc<Connection>, Arc<Channel>)> {
        let connection = self.pool.connection(&());
        let channel = Arc::clone(connection.get()?);
        Some((connection, channel))
    }

    /// An open connection, and the channel for requests on it.
    pub(super) async fn connect(&self) -> Result<(Arc<Connection>, Arc<Channel>), Failure> {
        self.pool.connect(&()).await.map_err(Failure::unsent)
    }

    /// Sends no more requests on a connection. It stays open while a request waits for an answer on it.
    pub(super) fn retire(&self, connection: &Arc<Connection>) {
        self.pool.retire(connection);
    }

    /// The same, because of the member: the next connection is opened to another one, if there is one.
    pub(super) fn fail(&self, connection: &Arc<Connection>, channel: &Channel) {
        self.cluster().avoid(channel.endpoint);
        if connection.is_on_keeper() {
            // The keeper's runtime is never blocked, so a failure there comes from the member, and counts for all runtimes.
            self.pool.retire_where(|opened| opened.endpoint == channel.endpoint);
        }
        self.pool.retire(connection);
    }
}
