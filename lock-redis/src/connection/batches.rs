//! [`Batches`]: verbs that are asked for while others are on their way go out together.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    mem,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use futures_util::{
    StreamExt,
    future::{join_all, poll_fn},
    stream::FuturesUnordered,
};
use redis::{ErrorKind, RedisResult, ServerError, Value, aio::MultiplexedConnection};
use tokio::sync::oneshot;

use super::run;
use crate::{request::Request, scripts::BATCH};

/// As long as fewer than so many verbs are on their way, and none of them in a batch, each goes alone: batches of few are slower
/// than as many commands that are written and read in one go.
const ALONE: usize = 32;

/// So many verbs at the most are in one batch, for the server does nothing else while it runs: an eighth of a
/// millisecond.
const MOST_VERBS: usize = 16;

/// So long at the most are the keys and arguments of a batch, unless it is one verb alone.
const MOST_BYTES: usize = 64 * 1024;

/// A batch has this part of the verbs that were asked for and not answered, at the most: so while the server carries out
/// one, we read the answers of another. All in one batch would take turns with us.
const SHARE: usize = 3;

/// So many full batches are on their way at the most.
const FULL: usize = 4;

/// Beyond so many on their way, a batch that is not full waits to be.
const PARTLY_FULL: usize = 2;

/// The verbs that wait for their turn on one connection.
///
/// A verb that is asked for while few are on their way is sent by whoever asks, at once and alone. The others wait for the
/// task that drives the connection, which sends what has queued up as one script: see `scripts/batch.lua`.
///
/// Whoever no longer waits for an answer is not sent any more. What was sent is as with any other command: it may have
/// been carried out, answered or not.
pub(super) struct Batches {
    state: Mutex<State>,
    /// The process that it was made in.
    pid: u32,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Queued>,
    /// The batches on their way.
    batches: usize,
    /// The verbs on their way, in batches and alone.
    verbs: usize,
    /// The task that sends, when it has nothing to do.
    waker: Option<Waker>,
    /// This server wants each verb alone.
    dissolved: bool,
    /// Nobody sends any more.
    over: bool,
}

struct Queued {
    request: Request,
    answer: oneshot::Sender<RedisResult<Value>>,
}

/// What becomes of a verb.
pub(super) enum Turn<'a> {
    /// It is to be sent now, by whoever asks; what comes with it is kept until it is answered.
    Now(Request, OnItsWay<'a>),
    /// It will be answered here.
    Later(oneshot::Receiver<RedisResult<Value>>),
    /// The connection has ended; the verb was not sent.
    Never(Request),
}

impl Default for Batches {
    fn default() -> Self {
        Self { state: Mutex::default(), pid: std::process::id() }
    }
}

impl Batches {
    pub(super) fn ask(&self, request: Request) -> Turn<'_> {
        let mut state = self.state();
        if state.over {
            return Turn::Never(request);
        }
        let few = state.batches == 0 && state.verbs < ALONE && state.queue.is_empty();
        if state.dissolved || few {
            return Turn::Now(request, OnItsWay::new(self, &mut state, 0, 1));
        }
        let (answer, answered) = oneshot::channel();
        state.queue.push_back(Queued { request, answer });
        let sender = state.sender_if_due();
        drop(state);
        sender.into_iter().for_each(Waker::wake);
        Turn::Later(answered)
    }

    /// Drives a connection, and sends batches on it, until it ends.
    pub(super) async fn drive(
        &self,
        connection: MultiplexedConnection,
        mut driver: impl Future<Output = ()> + Unpin,
    ) {
        let mut flights = FuturesUnordered::new();
        poll_fn(|cx| {
            loop {
                while let Poll::Ready(Some(())) = flights.poll_next_unpin(cx) {}
                if let Some((batch, on_its_way)) = self.next(cx.waker()) {
                    flights.push(self.fly(connection.clone(), batch, on_its_way));
                    continue;
                }
                if Pin::new(&mut driver).poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                // What the driver has just read.
                if !matches!(flights.poll_next_unpin(cx), Poll::Ready(Some(()))) {
                    return Poll::Pending;
                }
            }
        })
        .await;
        // Whatever is on its way learns from this what became of the connection.
        drop(driver);
        while flights.next().await.is_some() {}
    }

    /// Lets nobody wait for what will not be sent.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.over = true;
        let gone = (mem::take(&mut state.queue), state.waker.take());
        drop(state);
        // Only now: this wakes others.
        drop(gone);
    }

    /// The next batch, if it is time for one; else the task is woken when it is.
    fn next(&self, waker: &Waker) -> Option<(Vec<Queued>, OnItsWay<'_>)> {
        let mut state = self.state();
        let batch = if state.is_due() { state.take() } else { Vec::new() };
        if batch.is_empty() {
            let former = state.waker.replace(waker.clone());
            drop(state);
            drop(former);
            return None;
        }
        let on_its_way = OnItsWay::new(self, &mut state, 1, batch.len());
        Some((batch, on_its_way))
    }

    async fn fly(
        &self,
        mut connection: MultiplexedConnection,
        batch: Vec<Queued>,
        _until_answered: OnItsWay<'_>,
    ) {
        if batch.len() == 1 {
            return send_alone(&connection, batch).await;
        }
        let letters: Vec<u8> = batch.iter().map(|queued| queued.request.letter()).collect();
        let keys: Vec<&[u8]> = batch.iter().flat_map(|queued| queued.request.keys()).collect();
        let mut args: Vec<&[u8]> = vec![&letters];
        args.extend(batch.iter().flat_map(|queued| queued.request.args()));
        let for_all = match run(&mut connection, &BATCH, &keys, &args).await {
            Ok(Value::Array(answers)) if answers.len() == batch.len() => {
                for (queued, answer) in batch.into_iter().zip(answers) {
                    queued.tell(Ok(answer));
                }
                return;
            }
            // Nothing was run.
            Ok(Value::SimpleString(word)) if word == "ALONE" => return send_alone(&connection, batch).await,
            Ok(Value::ServerError(refusal)) if refuses_the_company(&refusal) => {
                self.state().dissolved |= refusal.code() != "NOPERM";
                return send_alone(&connection, batch).await;
            }
            Ok(Value::ServerError(refusal)) => Ok(Value::ServerError(refusal)),
            Ok(_) => {
                Err((ErrorKind::UnexpectedReturnType, "a batch was answered with something else").into())
            }
            Err(failure) => Err(failure),
        };
        for queued in batch {
            queued.tell(for_all.clone());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and each change to it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Each as a command of its own.
async fn send_alone(connection: &MultiplexedConnection, batch: Vec<Queued>) {
    let sent = batch.into_iter().filter(|queued| !queued.answer.is_closed()).map(|queued| {
        let mut connection = connection.clone();
        async move {
            let Request { keys, args, .. } = &queued.request;
            let answer = run(&mut connection, queued.request.script(), keys, args).await;
            queued.tell(answer);
        }
    });
    join_all(sent).await;
}

/// Whether a server that says so has run nothing, and would take the verbs one by one: those of a batch are on several
/// slots of a cluster, or one of them is on a key that we may not touch.
fn refuses_the_company(refusal: &ServerError) -> bool {
    matches!(refusal.code(), "NOPERM" | "CROSSSLOT" | "MOVED" | "ASK")
}

impl Queued {
    fn tell(self, answer: RedisResult<Value>) {
        // Whoever asked may no longer wait.
        let _ = self.answer.send(answer);
    }
}

impl State {
    fn is_due(&self) -> bool {
        let most = if self.queue.len() >= self.most_verbs() { FULL } else { PARTLY_FULL };
        !self.queue.is_empty() && self.batches < most
    }

    /// How many verbs the next batch has, if there are so many.
    fn most_verbs(&self) -> usize {
        ((self.queue.len() + self.verbs) / SHARE).clamp(1, MOST_VERBS)
    }

    /// What comes first in the queue, as far as it goes into one batch; of those who still wait for an answer.
    fn take(&mut self) -> Vec<Queued> {
        let most_verbs = self.most_verbs();
        let (mut batch, mut bytes) = (Vec::with_capacity(most_verbs), 0);
        while let Some(next) = self.queue.front() {
            bytes += next.request.size();
            if batch.len() == most_verbs || (bytes > MOST_BYTES && !batch.is_empty()) {
                break;
            }
            batch.extend(self.queue.pop_front().filter(|queued| !queued.answer.is_closed()));
        }
        batch
    }

    /// The task that sends, if it has to be woken.
    fn sender_if_due(&mut self) -> Option<Waker> {
        if self.is_due() { self.waker.take() } else { None }
    }
}

/// Counts as being on its way until it is dropped.
pub(super) struct OnItsWay<'a> {
    all: &'a Batches,
    batches: usize,
    verbs: usize,
}

impl<'a> OnItsWay<'a> {
    fn new(all: &'a Batches, state: &mut State, batches: usize, verbs: usize) -> Self {
        state.batches += batches;
        state.verbs += verbs;
        Self { all, batches, verbs }
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        // In a fork the one who drives the connection, who is not there, may seem to hold the state for ever.
        if self.all.pid != std::process::id() {
            return;
        }
        let mut state = self.all.state();
        state.batches -= self.batches;
        state.verbs -= self.verbs;
        let sender = state.sender_if_due();
        drop(state);
        sender.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Batches")
            .field("queued", &state.queue.len())
            .field("on_their_way", &state.verbs)
            .finish_non_exhaustive()
    }
}
