//! [`Client`]: commands to the server and their answers.

mod batcher;
mod connect;
mod connection;
mod connector;
mod endpoint;
pub(crate) mod handshake;
mod reply_limit;
mod role_check;
mod run_script;
mod socket;
mod tls_probe;
mod unanswered_creates;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use futures_util::FutureExt;
use lock_core::{BackendError, BackendErrorKind as Kind, BootTime, ConnectionPool, EntryId, RuntimeSelector};
use redis::{Cmd, RedisResult, Value};

pub(crate) use self::connector::DRIVER_SETUP;
pub(crate) use self::endpoint::Endpoint;
#[cfg(any(test, fuzzing))]
pub(crate) use self::reply_limit::ReplyLimit;
pub(crate) use self::socket::Socket;
use self::{
    batcher::Submission,
    connection::Connection,
    connector::{CommandConnector, PooledCommands},
    run_script::run_script,
    unanswered_creates::UnansweredCreates,
};
use crate::{
    error::{self, STORE},
    reply,
    request::Request,
    scripts::{RENEW, Script},
};

/// Sends commands, on the caller's own runtime if it has one. Cheap to clone. When the last clone is dropped, all connections close.
///
/// * Opening is lazy, single-flight, and bounded by `connect_timeout`. A command whose connection could not be opened is
///   [unsent](BackendError::is_unsent). While the server is away, one attempt is made for the connections of all runtimes, those for
///   notifications included: a command waits for it, for at most half of `connect_timeout`.
/// * An answer is bounded by `command_timeout`, on the keeper's timers: it needs no timers of the caller's runtime.
/// * Verbs that are requested at the same time are sent in batches: several as one command, each with an answer of its own.
/// * Nothing is sent twice. A connection that broke, or did not answer in time, gets no more commands; the next command
///   opens another.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pool: ConnectionPool<CommandConnector>,
    unanswered: Arc<UnansweredCreates>,
}

impl Client {
    /// No connection is opened yet.
    pub(crate) fn new(endpoint: Arc<Endpoint>, runtimes: Arc<RuntimeSelector>) -> Self {
        let connector = Arc::new(CommandConnector::new(endpoint));
        Self { pool: ConnectionPool::new(connector, runtimes), unanswered: Arc::default() }
    }

    /// `host:port`, for messages.
    pub(crate) fn server(&self) -> &str {
        &self.pool.connector().endpoint.address
    }

    /// Carries out a verb, alone or in a batch with others that are requested on the same runtime.
    ///
    /// # Cancel safety
    /// Safe to drop. The verb may have been carried out.
    pub(crate) async fn execute(&self, mut request: Request) -> Result<Value, BackendError> {
        loop {
            let checkout = self.connect().await?;
            let mut pending = self.unanswered.begin(request.creates, &checkout.pooled);
            let answer = match checkout.connection.batcher.submit(request) {
                Submission::SendNow(request, _until_answered) => {
                    pending.mark_sent_alone();
                    let mut multiplexed = checkout.connection.multiplexed.clone();
                    let answer = run_script(&mut multiplexed, request.script(), &request.keys, &request.args);
                    checkout.exchange(answer).await
                }
                Submission::Queued(answer) => {
                    let answer = async { answer.await.unwrap_or_else(|_| Err(error::connection_ended())) };
                    checkout.exchange(answer).await
                }
                // The connection has just ended; the loop takes another.
                Submission::Closed(back) => {
                    pending.mark_answered();
                    request = back;
                    continue;
                }
            };
            match &answer {
                Ok(_) => pending.mark_answered(),
                Err(_) => pending.mark_failed(),
            }
            return checkout.check(answer?);
        }
    }

    /// Deletes the tombstone of an entry that has left, if no create of it can arrive any more. Does not wait for the deletion.
    pub(crate) fn delete_tombstone(&self, entry: EntryId, tombstone: &[u8]) {
        let Some(pooled) = self.unanswered.take_connection(entry) else { return };
        let Some(connection) = pooled.get() else { return };
        let mut delete = Cmd::new();
        delete.arg("DEL").arg(tombstone).set_no_response(true);
        let mut sending = Box::pin(connection.send_without_answer(delete));
        // Usually there is room for it at once.
        if sending.as_mut().now_or_never().is_none() {
            self.pool.keeper().spawn(sending);
        }
    }

    /// Runs a script by its digest. If the server does not know the script, the same call sends its source.
    ///
    /// # Cancel safety
    /// Safe to drop. The script may have been run.
    pub(crate) async fn call(
        &self,
        script: &Script,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> Result<Value, BackendError> {
        self.connect().await?.call(script, keys, args).await
    }

    /// Extends leases, and returns for each whether it was extended. The caller repeats the request if there is no answer after
    /// `patience`: the connection may have died silently, so it gets no more commands, and the repetition opens another.
    /// An answer on the old connection still counts, and shows that it works: then it is used again, unless another one is open by then.
    ///
    /// # Cancel safety
    /// Safe to drop. The script may have been run.
    pub(crate) async fn renew(
        &self,
        patience: Duration,
        count: usize,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> Result<Vec<Result<bool, BackendError>>, BackendError> {
        let mut checkout = self.connect().await?;
        // Counted from here: the time for which the call waited for a new connection must not make it give up that connection.
        checkout.retire_at = Some(self.pool.keeper().now() + patience);
        let answers = reply::renewals(&checkout.call(&RENEW, keys, args).await?, count, self.server())?;
        // Each lease has its own answer, which may be a refusal.
        for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            checkout.retire_if_read_only(error);
        }
        Ok(answers)
    }

    /// Sends a command.
    ///
    /// # Cancel safety
    /// Safe to drop. The command may have been carried out.
    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value, BackendError> {
        let checkout = self.connect().await?;
        let mut multiplexed = checkout.connection.multiplexed.clone();
        let answer = checkout.exchange(multiplexed.send_packed_command(command)).await?;
        checkout.check(answer)
    }

    async fn connect(&self) -> Result<Checkout<'_>, BackendError> {
        let pool = &self.pool;
        let (pooled, connection) = pool.connect(&()).await.map_err(|failure| failure.to_unsent())?;
        let answer_by = pool.keeper().now() + pool.connector().endpoint.config.server.command_timeout;
        Ok(Checkout { pool, pooled, connection, retire_at: None, answer_by })
    }
}

/// A connection taken from the pool for one call.
struct Checkout<'a> {
    pool: &'a ConnectionPool<CommandConnector>,
    pooled: Arc<PooledCommands>,
    connection: Arc<Connection>,
    /// When the connection is retired unless it has answered.
    retire_at: Option<BootTime>,
    /// When the call has to be answered.
    answer_by: BootTime,
}

impl Checkout<'_> {
    async fn call(&self, script: &Script, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Result<Value, BackendError> {
        let mut multiplexed = self.connection.multiplexed.clone();
        let answer = self.exchange(run_script(&mut multiplexed, script, keys, args)).await?;
        self.check(answer)
    }

    async fn exchange(
        &self,
        answer: impl Future<Output = RedisResult<Value>> + Send,
    ) -> Result<Value, BackendError> {
        let endpoint = self.endpoint();
        match self.answered(answer).await {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(failure)) => {
                // The connection's own task may not have noticed yet.
                self.pool.connector().role_check.mark_doubtful();
                self.pool.retire(&self.pooled);
                Err(error::broken(&endpoint.address, failure))
            }
            None => {
                self.pool.retire(&self.pooled);
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
    async fn answered(
        &self,
        answer: impl Future<Output = RedisResult<Value>> + Send,
    ) -> Option<RedisResult<Value>> {
        let keeper = self.pool.keeper();
        let Some(retire_at) = self.retire_at else { return keeper.timeout_at(self.answer_by, answer).await };
        let mut answer = pin!(answer);
        let prompt = keeper.timeout_at(retire_at, answer.as_mut()).await;
        if prompt.is_some() {
            return prompt;
        }
        self.pool.retire(&self.pooled);
        let late = keeper.timeout_at(self.answer_by, answer).await;
        if matches!(late, Some(Ok(_))) {
            self.pool.take_back(&self.pooled);
        }
        late
    }

    fn check(&self, answer: Value) -> Result<Value, BackendError> {
        let Value::ServerError(refusal) = answer else { return Ok(answer) };
        let error = error::refused(&self.endpoint().address, &refusal);
        // A new connection logs in again.
        if refusal.code() == "NOAUTH" {
            self.pool.retire(&self.pooled);
        }
        self.retire_if_read_only(&error);
        Err(error)
    }

    fn endpoint(&self) -> &Endpoint {
        &self.pool.connector().endpoint
    }

    /// Retires the connection after a refused write: a new one may reach another server under the same name, one that takes writes.
    fn retire_if_read_only(&self, error: &BackendError) {
        if *error.kind() == Kind::ReadOnly {
            self.pool.connector().role_check.mark_doubtful();
            self.pool.retire(&self.pooled);
        }
    }
}

#[cfg(test)]
mod tests;
