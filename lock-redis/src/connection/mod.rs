//! [`Wire`]: commands to the server and their answers.

mod batches;
mod demotion;
mod doors;
mod endpoint;
pub(crate) mod handshake;
mod homes;
mod lane;
mod meter;
mod socket;
mod spoken;
mod terminal;

use std::{future::Future, io, pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::{FutureExt, future::poll_fn};
use lock_core::{BackendError, BackendErrorKind as Kind, BootTime, EntryId, Keeper};
use redis::{Cmd, RedisError, RedisResult, ServerErrorKind, Value, aio::MultiplexedConnection};

pub(crate) use self::endpoint::Endpoint;
pub(crate) use self::homes::Homes;
pub(crate) use self::lane::SAID;
#[cfg(any(test, fuzzing))]
pub(crate) use self::meter::Meter;
pub(crate) use self::socket::Socket;
use self::{batches::Turn, lane::Lane, terminal::Terminal};
use crate::{
    error::{self, STORE},
    reply,
    request::Request,
    scripts::{RENEW, Script},
};

/// Sends commands, on the caller's own runtime where it has one. Cheap to clone; the last one to go closes all
/// connections.
///
/// * Opening is lazy, single-flight, and bounded by `connect_timeout`. A command whose connection could not be opened is
///   [unsent](BackendError::is_unsent). While the server is away, one attempt is made for the connections of all runtimes, those for
///   notifications included: a command waits for it, for half of `connect_timeout` at the most.
/// * An answer is bounded by `command_timeout`, on the keeper's timers: it needs no timers of the caller's runtime.
/// * Of many verbs that are asked for in the same moment several go out as one command, each with an answer of its own.
/// * Nothing is sent twice. A connection that broke, or did not answer in time, gets no more commands; the next command
///   opens another.
#[derive(Clone, Debug)]
pub(crate) struct Wire(Arc<Terminal>);

impl Wire {
    /// No connection is opened yet.
    pub(crate) fn new(endpoint: Arc<Endpoint>, homes: Arc<Homes>) -> Self {
        Self(Arc::new(Terminal::new(endpoint, homes)))
    }

    /// `host:port`, for messages.
    pub(crate) fn server(&self) -> &str {
        &self.0.endpoint.address
    }

    /// Carries out a verb, alone or together with others that are asked for on the same runtime.
    ///
    /// # Cancel safety
    /// Safe to drop. The verb may have been carried out.
    pub(crate) async fn ask(&self, mut request: Request) -> Result<Value, BackendError> {
        loop {
            let line = self.connect().await?;
            let mut asking = self.0.doors.asks(request.creates, &line.lane);
            let answer = match line.lane.batches.ask(request) {
                Turn::Now(request, _until_answered) => {
                    asking.goes_alone();
                    let mut connection = line.connection.clone();
                    let answer = run(&mut connection, request.script(), &request.keys, &request.args);
                    line.exchange(answer).await
                }
                Turn::Later(answer) => {
                    let answer = async { answer.await.unwrap_or_else(|_| Err(ended())) };
                    line.exchange(answer).await
                }
                // The connection ended only just now; the next one is another.
                Turn::Never(back) => {
                    asking.is_done();
                    request = back;
                    continue;
                }
            };
            match &answer {
                Ok(_) => asking.is_done(),
                Err(_) => asking.has_failed(),
            }
            return line.judge(answer?);
        }
    }

    /// Opens the door behind an entry that has left, if no create of it can arrive any more. Nobody waits for that.
    pub(crate) fn open_door(&self, entry: EntryId, tombstone: &[u8]) {
        let Some(lane) = self.0.doors.behind(entry) else { return };
        let mut open = Cmd::new();
        open.arg("DEL").arg(tombstone).set_no_response(true);
        let mut telling = Box::pin(lane.tell(open));
        // Mostly there is room for it at once.
        if telling.as_mut().now_or_never().is_none() {
            self.0.keeper().spawn(telling);
        }
    }

    /// Runs a script, by its digest; a server that does not know it gets its source in the same call.
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

    /// Extends leases: whether each was. The caller repeats it when there is no answer after `patience`: then the connection gets
    /// no more commands, as one that may have died in silence, and the repetition opens another. An answer on it still counts.
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
        let mut line = self.connect().await?;
        // From here on: it may have waited for its turn to connect, and a new connection is not to pay for that.
        line.doubt = Some(self.0.keeper().now() + patience);
        let answers = reply::renewals(&line.call(&RENEW, keys, args).await?, count, self.server())?;
        // What is refused to one is said in its place.
        for error in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            line.abandon_if_read_only(error);
        }
        Ok(answers)
    }

    /// Sends a command.
    ///
    /// # Cancel safety
    /// Safe to drop. The command may have been carried out.
    pub(crate) async fn command(&self, command: &Cmd) -> Result<Value, BackendError> {
        let line = self.connect().await?;
        let mut connection = line.connection.clone();
        let answer = line.exchange(connection.send_packed_command(command)).await?;
        line.judge(answer)
    }

    async fn connect(&self) -> Result<Line<'_>, BackendError> {
        let (endpoint, keeper) = (&*self.0.endpoint, self.0.keeper());
        loop {
            let lane = self.0.lane();
            match lane.connection(endpoint, keeper).await {
                Ok(connection) => {
                    let until = keeper.now() + endpoint.config.command_timeout;
                    return Ok(Line { terminal: &self.0, lane, connection, doubt: None, until });
                }
                // The caller's runtime has no I/O; the keeper's has.
                Err(failure) if *failure.kind() == Kind::Panicked && lane.home.is_some() => {}
                Err(failure) => {
                    self.0.retire(&lane);
                    return Err(failure.to_unsent());
                }
            }
        }
    }
}

/// A connection for the time of one call.
struct Line<'a> {
    terminal: &'a Terminal,
    lane: Arc<Lane>,
    connection: MultiplexedConnection,
    /// When the connection gets no more commands if there is no answer.
    doubt: Option<BootTime>,
    /// When the call has to be answered.
    until: BootTime,
}

impl Line<'_> {
    async fn call(&self, script: &Script, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Result<Value, BackendError> {
        let mut connection = self.connection.clone();
        let answer = self.exchange(run(&mut connection, script, keys, args)).await?;
        self.judge(answer)
    }

    async fn exchange(
        &self,
        answer: impl Future<Output = RedisResult<Value>> + Send,
    ) -> Result<Value, BackendError> {
        let (endpoint, keeper) = (&self.terminal.endpoint, self.terminal.keeper());
        let mut answer = pin!(answer);
        let mut answered = None;
        if let Some(doubt) = self.doubt {
            answered = by(keeper, doubt, answer.as_mut()).await;
            if answered.is_none() {
                self.terminal.retire(&self.lane);
            }
        }
        if answered.is_none() {
            answered = by(keeper, self.until, answer).await;
        }
        match answered {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(failure)) => {
                // Before its own task may have said so.
                self.terminal.demotion.doubt();
                self.terminal.retire(&self.lane);
                Err(error::broken(&endpoint.address, failure))
            }
            None => {
                self.terminal.retire(&self.lane);
                let (address, limit) = (&endpoint.address, endpoint.config.command_timeout);
                Err(BackendError::new(
                    STORE,
                    Kind::TimedOut,
                    format!("{address} did not answer within {limit:?}"),
                ))
            }
        }
    }

    fn judge(&self, answer: Value) -> Result<Value, BackendError> {
        let Value::ServerError(refusal) = answer else { return Ok(answer) };
        let error = error::refused(&self.terminal.endpoint.address, &refusal);
        // A new connection may reach one that knows us.
        if refusal.code() == "NOAUTH" {
            self.terminal.retire(&self.lane);
        }
        self.abandon_if_read_only(&error);
        Err(error)
    }

    /// A new connection may reach another server under the same name, which takes writes.
    fn abandon_if_read_only(&self, error: &BackendError) {
        if *error.kind() == Kind::ReadOnly {
            self.terminal.demotion.doubt();
            self.terminal.retire(&self.lane);
        }
    }
}

/// Runs a script, by its digest; a server that does not know it, and so did not run it, gets its source.
async fn run(
    connection: &mut MultiplexedConnection,
    script: &Script,
    keys: &[impl AsRef<[u8]> + Sync],
    args: &[impl AsRef<[u8]> + Sync],
) -> RedisResult<Value> {
    let answer = connection.send_packed_command(&evaluate("EVALSHA", script.sha(), keys, args)).await?;
    match &answer {
        Value::ServerError(refusal) if refusal.kind() == Some(ServerErrorKind::NoScript) => {
            connection.send_packed_command(&evaluate("EVAL", script.source(), keys, args)).await
        }
        _ => Ok(answer),
    }
}

fn evaluate(verb: &str, script: &str, keys: &[impl AsRef<[u8]>], args: &[impl AsRef<[u8]>]) -> Cmd {
    let keys_and_args = || keys.iter().map(AsRef::as_ref).chain(args.iter().map(AsRef::as_ref));
    let size = keys_and_args().map(<[u8]>::len).sum::<usize>() + verb.len() + script.len() + 8;
    let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), size);
    command.arg(verb).arg(script).arg(keys.len());
    for one in keys_and_args() {
        command.arg(one);
    }
    command
}

/// What became of a verb that its connection took with it.
fn ended() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}

/// The result of a future, or `None` if it is not there by `until` on the keeper's clock. Needs no runtime.
pub(crate) async fn by<T>(
    keeper: &Keeper,
    until: BootTime,
    future: impl Future<Output = T> + Send,
) -> Option<T> {
    let mut future = pin!(future);
    let mut timer = pin!(keeper.sleep_until(until));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests;
