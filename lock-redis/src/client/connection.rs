//! [`Connection`]: one connection for commands.

use std::future::Future;

use redis::{Cmd, aio::MultiplexedConnection};

use super::batcher::Batcher;

/// One pipelined connection.
pub(super) struct Connection {
    pub(super) multiplexed: MultiplexedConnection,
    /// The queue of verbs to be sent.
    pub(super) batcher: Batcher,
}

impl Connection {
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
