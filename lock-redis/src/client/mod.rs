//! [`Client`]: commands to the server and their answers.

mod batch;
mod batcher;
mod checkout;
mod connect;
mod connection;
mod connector;
mod endpoint;
pub(crate) mod handshake;
mod identity;
mod queued_request;
mod reply_limit;
mod role_check;
mod run_script;
mod socket;
mod tls_probe;
mod unanswered_creates;

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use lock_core::{
    BackendError, BackendErrorKind as Kind, ConnectionPool, EntryId, FencingToken, RuntimeSelector,
};
use redis::{Cmd, Value};

pub(crate) use self::connector::DRIVER_SETUP;
pub(crate) use self::endpoint::Endpoint;
#[cfg(any(test, fuzzing))]
pub(crate) use self::reply_limit::ReplyLimit;
pub(crate) use self::socket::Socket;
use self::{
    checkout::{Checkout, Sent},
    connection::Connection,
    connector::{CommandConnector, PooledCommands},
    unanswered_creates::{SentPlainly, UnansweredCreates},
};
use crate::{
    error::STORE,
    plain_create, reply,
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
            let mut pending = self.unanswered.begin_script(request.creates, &checkout.pooled);
            match checkout.send(request, &mut pending).await {
                Sent::Answered(answer) => return checkout.check(answer?),
                // The loop takes another connection.
                Sent::Closed(back) => request = back,
            }
        }
    }

    /// Creates the holder of a free mutex by [plain commands](Request::create_plainly), alone or in a batch with others.
    ///
    /// # Cancel safety
    /// Safe to drop. The entry may have been created.
    pub(crate) async fn create_plainly(
        &self,
        entry: EntryId,
        mut create: Request,
    ) -> Result<PlainOutcome<'_>, BackendError> {
        loop {
            let checkout = self.connect().await?;
            let Some(identity) = checkout.identity().await.map_err(BackendError::unsent)? else {
                return Ok(PlainOutcome::NotSent);
            };
            let mut pending = self.unanswered.begin_plain(entry, &checkout.pooled, &identity);
            let sent = checkout.send(create, &mut pending).await;
            drop(pending);
            match sent {
                Sent::Answered(answer) => {
                    return Ok(match plain_create::granted(&answer?) {
                        Some(token) => PlainOutcome::Granted(token),
                        None => PlainOutcome::Undecided(Undecided { client: self, checkout }),
                    });
                }
                Sent::Closed(back) => create = back,
            }
        }
    }

    /// Carries out a leave after creates of the entry that were not answered. `leave` makes the request, with a tombstone or without.
    ///
    /// # Cancel safety
    /// Safe to drop. The leave may have been carried out.
    pub(crate) async fn leave_in_doubt(
        &self,
        entry: EntryId,
        leave: impl Fn(bool) -> Request + Send + Sync,
    ) -> Result<Value, BackendError> {
        let unanswered = self.unanswered.of(entry).unwrap_or_default();
        let tombstone = unanswered.needs_tombstone();
        let Some((last, earlier)) = unanswered.plain.split_last() else {
            return self.execute(leave(tombstone)).await;
        };
        for create in earlier {
            self.rule_out(create).await?;
        }
        if let Some(checkout) = self.checkout_of(last) {
            // What is sent on this connection from now on is carried out after the create, in a batch or not.
            let mut pending = self.unanswered.begin_script(None, &checkout.pooled);
            if let Sent::Answered(answer) = checkout.send(leave(tombstone), &mut pending).await {
                return checkout.check(answer?);
            }
        }
        self.rule_out(last).await?;
        self.execute(leave(tombstone)).await
    }

    /// Ends the connection on which a create was sent, so that it can no longer arrive.
    async fn rule_out(&self, create: &SentPlainly) -> Result<(), BackendError> {
        let checkout = self.connect().await?;
        match checkout.identity().await? {
            Some(own) if own.has_the_server_of(&create.identity) => {
                checkout.command(&create.identity.kill()).await.map(drop)
            }
            // The run of the server that it was sent to has ended.
            Some(_) => Ok(()),
            None => Err(BackendError::new(
                STORE,
                Kind::Unavailable,
                format!("{} does not tell whether an earlier request can still arrive", self.server()),
            )),
        }
    }

    /// The connection on which a create was sent, if it still gets requests.
    fn checkout_of(&self, create: &SentPlainly) -> Option<Checkout<'_>> {
        let pooled = create.connection.upgrade().filter(|pooled| !pooled.is_closed())?;
        let connection = Arc::clone(pooled.get()?);
        if connection.is_retired() { None } else { Some(self.checkout(pooled, connection)) }
    }

    /// An entry has left: deletes its tombstone, if no create of it can arrive any more. Does not wait for the deletion.
    pub(crate) fn forget(&self, entry: EntryId, tombstone: &[u8]) {
        let Some(pooled) = self.unanswered.forget(entry) else { return };
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
        self.connect().await?.command(command).await
    }

    async fn connect(&self) -> Result<Checkout<'_>, BackendError> {
        let opened = self.pool.connect(&()).await;
        let (pooled, connection) = opened.map_err(|failure| failure.to_unsent())?;
        Ok(self.checkout(pooled, connection))
    }

    fn checkout(&self, pooled: Arc<PooledCommands>, connection: Arc<Connection>) -> Checkout<'_> {
        let pool = &self.pool;
        let answer_by = pool.keeper().now() + pool.connector().endpoint.config.server.command_timeout;
        Checkout { pool, pooled, connection, retire_at: None, answer_by }
    }
}

/// What plain commands have come to.
pub(crate) enum PlainOutcome<'a> {
    Granted(FencingToken),
    Undecided(Undecided<'a>),
    /// Nothing was sent: the connection cannot be ended from another one.
    NotSent,
}

/// A create that a script has to decide. The entry may be the holder as far as the server knows.
pub(crate) struct Undecided<'a> {
    client: &'a Client,
    checkout: Checkout<'a>,
}

impl Undecided<'_> {
    /// Runs the script on the same connection: if another had to be opened first, an error could say that nothing was sent.
    ///
    /// # Cancel safety
    /// Safe to drop. The script may have been run.
    pub(crate) async fn decide(self, request: Request) -> Result<Value, BackendError> {
        let Checkout { pooled, connection, .. } = self.checkout;
        let checkout = self.client.checkout(pooled, connection);
        let mut pending = self.client.unanswered.begin_script(request.creates, &checkout.pooled);
        pending.mark_sent_alone();
        let answer = checkout.send_alone(&request).await;
        match &answer {
            Ok(_) => pending.mark_answered(),
            Err(_) => pending.mark_failed(),
        }
        checkout.check(answer?)
    }
}

#[cfg(test)]
mod tests;
