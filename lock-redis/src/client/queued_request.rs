//! [`QueuedRequest`]: a verb that waits to be sent with others.

use redis::{RedisResult, Value};
use tokio::sync::oneshot;

use crate::request::Request;

/// A verb, and where its answer goes.
pub(super) struct QueuedRequest {
    pub(super) request: Request,
    pub(super) answer: oneshot::Sender<RedisResult<Value>>,
}

impl QueuedRequest {
    /// Whether its caller no longer waits.
    pub(super) fn is_given_up(&self) -> bool {
        self.answer.is_closed()
    }

    pub(super) fn complete(self, answer: RedisResult<Value>) {
        // The caller may no longer wait.
        let _ = self.answer.send(answer);
    }
}
