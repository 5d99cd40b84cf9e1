//! Lets the [`Cluster`] open connections for the pool.

use std::{future::pending, sync::Arc, time::Duration};

use async_trait::async_trait;
use lock_core::{BackendErrorKind as Kind, ConnectionTask, Connector, Keeper, isolate};
use tokio::net::UdpSocket;

use super::{channel::Channel, cluster::Cluster};
use crate::error::Failure;

#[async_trait]
impl Connector for Cluster {
    type Target = ();
    type Connection = Arc<Channel>;
    type Failure = Failure;

    /// The tasks of the client run on the same runtime. The task of the connection waits for the end of that runtime, or for the last caller.
    async fn open(&self, _target: &(), keeper: &Keeper) -> Result<(Arc<Channel>, ConnectionTask), Failure> {
        // A runtime without timers or I/O panics here, where the panic is caught, and not in the tasks of the client.
        drop(tokio::time::sleep(Duration::ZERO));
        drop(UdpSocket::bind(("127.0.0.1", 0)).await);
        let channel = self.open_channel(keeper).await?;
        isolate(|| tracing::debug!(member = %channel.address, "etcd connection opened"));
        let task: ConnectionTask = Box::pin(pending());
        Ok((Arc::new(channel), task))
    }

    fn connect_timeout(&self) -> Duration {
        self.config.server.connect_timeout
    }

    fn timed_out(&self, _target: &()) -> Failure {
        Failure::timed_out(&self.config, "opening a connection", self.config.server.connect_timeout)
    }

    fn failure(&self, kind: Kind, message: &'static str) -> Failure {
        Failure::new(kind, message)
    }

    fn not_opened(&self, _target: &(), failure: &Failure) {
        isolate(|| tracing::debug!(cluster = %self.config, "etcd connection not opened: {failure}"));
    }
}
