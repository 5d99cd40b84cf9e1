//! [`Connection`]: one connection for commands.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use redis::{Cmd, RedisResult, aio::MultiplexedConnection};
use tokio::sync::SetOnce;

use super::{batcher::Batcher, identity::Identity};

/// One pipelined connection.
pub(super) struct Connection {
    pub(super) multiplexed: MultiplexedConnection,
    /// The queue of verbs to be sent.
    pub(super) batcher: Batcher,
    /// `None` if it cannot be told, or is of no use.
    identity: SetOnce<RedisResult<Option<Arc<Identity>>>>,
    /// Whether it gets no more requests, because an answer on it was late. An answer may still come.
    retired: AtomicBool,
}

impl Connection {
    pub(super) fn new(multiplexed: MultiplexedConnection) -> Self {
        Self {
            multiplexed,
            batcher: Batcher::default(),
            identity: SetOnce::new(),
            retired: AtomicBool::new(false),
        }
    }

    /// Drives the connection until it ends, and finds out what the server calls it.
    pub(super) async fn drive(&self, driver: impl Future<Output = ()> + Unpin) {
        let identify = async {
            let identity = Identity::ask(self.multiplexed.clone()).await;
            // Nobody else sets it.
            let _ = self.identity.set(identity.map(|known| known.map(Arc::new)));
        };
        futures_util::future::join(self.batcher.drive(self.multiplexed.clone(), driver), identify).await;
    }

    /// What the server calls it, if that is known by now.
    pub(super) fn known_identity(&self) -> Option<&Arc<Identity>> {
        self.identity.get()?.as_ref().ok()?.as_ref()
    }

    /// The same, as soon as it is known.
    ///
    /// # Errors
    /// The connection ended before.
    pub(super) async fn identity(&self) -> RedisResult<Option<Arc<Identity>>> {
        self.identity.wait().await.clone()
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    pub(super) fn set_retired(&self, retired: bool) {
        self.retired.store(retired, Ordering::Release);
    }

    /// Sends a command after all earlier ones, as soon as there is room, and ignores its answer.
    pub(super) fn send_without_answer(
        &self,
        command: Cmd,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut multiplexed = self.multiplexed.clone();
        async move {
            // This fails if the connection has ended.
            let _ = multiplexed.send_packed_command(&command).await;
        }
    }
}
