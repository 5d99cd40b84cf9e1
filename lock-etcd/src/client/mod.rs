//! [`Client`]: requests to the cluster and their answers.

mod channel;
mod cluster;
mod connections;
mod connector;
mod hedge_budget;
mod retry;
mod tls;

use std::{future::Future, sync::Arc, time::Duration};

use etcd_client::{DeleteResponse, Txn, TxnResponse};
use lock_core::Keeper;

use self::{
    channel::Channel,
    connections::{Connection, Connections},
};
pub(crate) use self::{cluster::Cluster, retry::Outcome};
use crate::error::Failure;

/// Sends requests, on the caller's own runtime if it has one. Cheap to clone. When the last clone is dropped, all connections close.
///
/// * Opening is lazy, single-flight, and bounded by `connect_timeout`. The connection goes to the first endpoint that answers, and stays
///   there: the client's own balancing would give every third request to a dead member (E4). While a member is away, all callers that
///   need a connection to it share one attempt.
/// * An answer is bounded by `command_timeout`, on the keeper's timers: it needs no timers of the caller's runtime. The
///   client has no limits of its own (E1, E3).
/// * A request that is not answered in a third of that time is sent to another member as well, if there is one: an
///   election silently drops what was proposed during it. So every request must be harmless when it arrives
///   twice, or late. If there is no other member, the client asks for the status of the member over the same connection, which reveals a
///   connection that ended without failing the request. A connection that broke, or did not answer in time, gets no more requests.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<Connections>);

impl Client {
    /// No connection is opened yet.
    pub(crate) fn new(cluster: Arc<Cluster>, keeper: Keeper) -> Self {
        Self(Arc::new(Connections::new(cluster, keeper)))
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        self.0.cluster()
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        self.0.keeper()
    }

    /// Logs an event that many sessions and streams see at once as one line: see [`lock_core::LogThrottle::note`].
    pub(crate) fn warn(&self, cause: &'static str, tell: impl FnOnce(Option<u64>) + Send + 'static) {
        self.0.throttle.note(cause, tell);
    }

    /// Sends a transaction, which is built again each time it is sent.
    ///
    /// # Cancel safety
    /// Safe to drop. The transaction may have been carried out.
    pub(crate) async fn txn(&self, txn: impl Fn() -> Txn + Send + Sync) -> Outcome<TxnResponse> {
        self.0
            .send_within(self.0.cluster().config.server.command_timeout, |channel| {
                Arc::clone(channel).txn(txn())
            })
            .await
    }

    /// Deletes a key, whatever its value is by then.
    ///
    /// # Cancel safety
    /// Safe to drop. The request may have been carried out.
    pub(crate) async fn delete(&self, key: &[u8]) -> Outcome<DeleteResponse> {
        self.0
            .send_within(self.0.cluster().config.server.command_timeout, |channel| {
                Arc::clone(channel).delete(key.to_vec())
            })
            .await
    }

    /// Makes a request, within `command_timeout`. It may be made more than once.
    ///
    /// # Cancel safety
    /// Safe to drop. The request may have been carried out.
    pub(crate) async fn call<T, F>(
        &self,
        request: impl Fn(&Arc<Channel>) -> F + Send + Sync,
    ) -> Result<T, Failure>
    where
        T: Send,
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        self.send(request).await.answer
    }

    /// Like [`call`](Self::call), and also returns whether the request may still be carried out later.
    ///
    /// # Cancel safety
    /// Safe to drop. The request may have been carried out.
    pub(crate) async fn send<T, F>(&self, request: impl Fn(&Arc<Channel>) -> F + Send + Sync) -> Outcome<T>
    where
        T: Send,
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        self.0.send_within(self.0.cluster().config.server.command_timeout, request).await
    }

    /// Like [`call`](Self::call), with another time limit.
    pub(crate) async fn call_within<T, F>(
        &self,
        limit: Duration,
        request: impl Fn(&Arc<Channel>) -> F + Send + Sync,
    ) -> Result<T, Failure>
    where
        T: Send,
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        self.0.send_within(limit, request).await.answer
    }

    /// The connection of this runtime, for a stream on it.
    pub(crate) async fn connection(&self) -> Result<ConnectionHandle, Failure> {
        let (connection, channel) = self.0.connect().await?;
        Ok(ConnectionHandle { connections: Arc::clone(&self.0), connection, channel })
    }
}

/// A connection with a stream on it.
pub(crate) struct ConnectionHandle {
    connections: Arc<Connections>,
    connection: Arc<Connection>,
    pub(crate) channel: Arc<Channel>,
}

impl ConnectionHandle {
    /// Marks the member as unusable: another one is tried first the next time.
    pub(crate) fn fail(&self) {
        self.connections.fail(&self.connection, &self.channel);
    }
}
