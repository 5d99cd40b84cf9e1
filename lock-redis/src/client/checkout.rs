//! [`Checkout`]: a connection taken from the pool for one call.

use std::{future::Future, pin::pin, sync::Arc};

use lock_core::{BackendError, BackendErrorKind as Kind, BootTime, ConnectionPool};
use redis::{Cmd, RedisResult, Value};

use super::{
    batch,
    batcher::Submission,
    connection::Connection,
    connector::{CommandConnector, PooledCommands},
    endpoint::Endpoint,
    identity::Identity,
    run_script::run_script,
    unanswered_creates::PendingCreate,
};
use crate::{
    error::{self, STORE},
    request::Request,
    scripts::Script,
};

/// What became of a verb.
pub(super) enum Sent {
    Answered(Result<Value, BackendError>),
    /// The connection has ended; the verb was not sent.
    Closed(Request),
}

/// A connection taken from the pool for one call.
pub(super) struct Checkout<'a> {
    pub(super) pool: &'a ConnectionPool<CommandConnector>,
    pub(super) pooled: Arc<PooledCommands>,
    pub(super) connection: Arc<Connection>,
    /// When the connection is retired unless it has answered.
    pub(super) retire_at: Option<BootTime>,
    /// When the call has to be answered.
    pub(super) answer_by: BootTime,
}

impl Checkout<'_> {
    /// Sends a verb, and waits for its answer.
    pub(super) async fn send(&self, request: Request, pending: &mut PendingCreate<'_>) -> Sent {
        let answer = match self.connection.batcher.submit(request) {
            Submission::SendNow(request, _until_answered) => {
                pending.mark_sent_alone();
                self.send_alone(&request).await
            }
            Submission::Queued(answer) => {
                self.exchange(async { answer.await.unwrap_or_else(|_| Err(error::connection_ended())) }).await
            }
            // It has just ended.
            Submission::Closed(back) => {
                pending.mark_answered();
                return Sent::Closed(back);
            }
        };
        match &answer {
            Ok(_) => pending.mark_answered(),
            Err(_) => pending.mark_failed(),
        }
        Sent::Answered(answer)
    }

    pub(super) async fn send_alone(&self, request: &Request) -> Result<Value, BackendError> {
        let mut multiplexed = self.connection.multiplexed.clone();
        self.exchange(batch::send_alone(&mut multiplexed, request)).await
    }

    pub(super) async fn call(
        &self,
        script: &Script,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> Result<Value, BackendError> {
        let mut multiplexed = self.connection.multiplexed.clone();
        let answer = self.exchange(run_script(&mut multiplexed, script, keys, args)).await?;
        self.check(answer)
    }

    pub(super) async fn command(&self, command: &Cmd) -> Result<Value, BackendError> {
        let mut multiplexed = self.connection.multiplexed.clone();
        let answer = self.exchange(multiplexed.send_packed_command(command)).await?;
        self.check(answer)
    }

    /// What the server calls the connection. The first call after a connection was opened may wait for it.
    pub(super) async fn identity(&self) -> Result<Option<Arc<Identity>>, BackendError> {
        if let Some(known) = self.connection.known_identity() {
            return Ok(Some(Arc::clone(known)));
        }
        self.exchange(self.connection.identity()).await
    }

    async fn exchange<T>(
        &self,
        answer: impl Future<Output = RedisResult<T>> + Send,
    ) -> Result<T, BackendError> {
        let endpoint = self.endpoint();
        match self.answered(answer).await {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(failure)) => {
                // The connection's own task may not have noticed yet.
                self.pool.connector().role_check.mark_doubtful();
                self.retire();
                Err(error::broken(&endpoint.address, failure))
            }
            None => {
                self.retire();
                let (address, limit) = (&endpoint.address, endpoint.config.server.command_timeout);
                Err(BackendError::new(
                    STORE,
                    Kind::TimedOut,
                    format!("{address} did not answer within {limit:?}"),
                ))
            }
        }
    }

    /// The answer, unless it comes too late.
    async fn answered<T>(
        &self,
        answer: impl Future<Output = RedisResult<T>> + Send,
    ) -> Option<RedisResult<T>> {
        let keeper = self.pool.keeper();
        let Some(retire_at) = self.retire_at else { return keeper.timeout_at(self.answer_by, answer).await };
        let mut answer = pin!(answer);
        let prompt = keeper.timeout_at(retire_at, answer.as_mut()).await;
        if prompt.is_some() {
            return prompt;
        }
        self.retire();
        let late = keeper.timeout_at(self.answer_by, answer).await;
        if matches!(late, Some(Ok(_))) {
            self.connection.set_retired(false);
            self.pool.take_back(&self.pooled);
        }
        late
    }

    pub(super) fn check(&self, answer: Value) -> Result<Value, BackendError> {
        let Value::ServerError(refusal) = answer else { return Ok(answer) };
        let error = error::refused(&self.endpoint().address, &refusal);
        // A new connection logs in again.
        if refusal.code() == "NOAUTH" {
            self.retire();
        }
        self.retire_if_read_only(&error);
        Err(error)
    }

    fn endpoint(&self) -> &Endpoint {
        &self.pool.connector().endpoint
    }

    /// Retires the connection after a refused write: a new one may reach another server under the same name, one that takes writes.
    pub(super) fn retire_if_read_only(&self, error: &BackendError) {
        if *error.kind() == Kind::ReadOnly {
            self.pool.connector().role_check.mark_doubtful();
            self.retire();
        }
    }

    fn retire(&self) {
        self.connection.set_retired(true);
        self.pool.retire(&self.pooled);
    }
}
