//! [`Connection`]: one connection for commands.

use std::future::Future;

use redis::{Cmd, aio::MultiplexedConnection};

use super::batcher::Batcher;

/// One pipelined connection.
pub(super) struct Connection {
    pub(super) multiplexed: MultiplexedConnection,
    /// The verbs that wait to be sent.
    pub(super) batcher: Batcher,
}

impl Connection {
    /// Sends a command behind all that was sent before, as soon as there is room, and ignores its answer.
    pub(super) fn send_without_answer(
        &self,
        command: Cmd,
    ) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut multiplexed = self.multiplexed.clone();
        async move {
            // A connection that has ended takes nothing.
            let _ = multiplexed.send_packed_command(&command).await;
        }
    }
}
