//! [`Batcher`]: sends verbs together that are requested while others are in flight.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    mem,
    pin::Pin,
    task::{Poll, Waker},
};

use futures_util::{StreamExt, future::poll_fn, stream::FuturesUnordered};
use lock_core::sync::{Mutex, MutexGuard};
use redis::{RedisResult, Value, aio::MultiplexedConnection};
use tokio::sync::oneshot;

use super::{batch::send_together, queued_request::QueuedRequest};
use crate::request::Request;

/// While fewer verbs than this are in flight, and none of them in a batch, each is sent alone: a small batch is slower than the same
/// number of commands written and read in one go.
const MAX_ALONE: usize = 32;

/// The most verbs in one batch. The server does nothing else while it runs a batch: an eighth of a millisecond.
const MAX_VERBS: usize = 16;

/// The most bytes of keys and arguments in a batch, unless it has only one verb.
const MAX_BYTES: usize = 64 * 1024;

/// A batch has at most 1/`SHARE` of the verbs that are queued or in flight: so while the server runs one batch, this process reads the
/// answers of another. With all verbs in one batch, server and process would take turns.
const SHARE: usize = 3;

/// The most batches in flight.
const MAX_FULL_BATCHES: usize = 4;

/// With this many batches in flight, the next one waits until it is full.
const MAX_BATCHES: usize = 2;

/// The queue of verbs to be sent on one connection.
///
/// While few verbs are in flight, the caller sends its verb immediately, alone. Otherwise the verb is queued for the task that drives the
/// connection, which sends the queued verbs as one script: see `scripts/batch.lua`.
///
/// A queued verb whose caller no longer waits is not sent. A verb that was sent is like any other command: it may have been carried out,
/// whether it was answered or not.
pub(super) struct Batcher {
    state: Mutex<State>,
    /// The process that made this batcher.
    pid: u32,
}

#[derive(Default)]
struct State {
    queue: VecDeque<QueuedRequest>,
    /// The batches in flight.
    batches: usize,
    /// The verbs in flight, in batches and alone.
    verbs: usize,
    /// Wakes the sending task. Set while that task has nothing to send.
    waker: Option<Waker>,
    /// The server takes no batches: each verb is sent alone.
    unbatched: bool,
    /// The connection has ended, so no verb is sent any more.
    closed: bool,
}

/// What becomes of a verb.
pub(super) enum Submission<'a> {
    /// The caller sends it now, and keeps the [`InFlight`] until it is answered.
    SendNow(Request, InFlight<'a>),
    /// The task that drives the connection sends it; the answer comes here.
    Queued(oneshot::Receiver<RedisResult<Value>>),
    /// The connection has ended; the verb was not sent.
    Closed(Request),
}

impl Default for Batcher {
    fn default() -> Self {
        Self { state: Mutex::default(), pid: std::process::id() }
    }
}

impl Batcher {
    pub(super) fn submit(&self, request: Request) -> Submission<'_> {
        let mut state = self.state();
        if state.closed {
            return Submission::Closed(request);
        }
        // Never while a batch is in flight that may not be written yet: a leave must not overtake its create.
        let few =
            state.batches == 0 && (state.unbatched || state.verbs < MAX_ALONE && state.queue.is_empty());
        if few {
            return Submission::SendNow(request, InFlight::new(self, &mut state, 0, 1));
        }
        let (answer, answered) = oneshot::channel();
        state.queue.push_back(QueuedRequest { request, answer });
        let waker = state.take_waker_if_due();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Submission::Queued(answered)
    }

    /// Drives a connection, and sends batches on it, until it ends.
    pub(super) async fn drive(
        &self,
        multiplexed: MultiplexedConnection,
        mut driver: impl Future<Output = ()> + Unpin,
    ) {
        let mut sending = FuturesUnordered::new();
        poll_fn(|cx| {
            loop {
                while let Poll::Ready(Some(())) = sending.poll_next_unpin(cx) {}
                if let Some((batch, in_flight)) = self.next(cx.waker()) {
                    sending.push(self.send_batch(multiplexed.clone(), batch, in_flight));
                    continue;
                }
                if Pin::new(&mut driver).poll(cx).is_ready() {
                    return Poll::Ready(());
                }
                // Take the answers that the driver has just read.
                if !matches!(sending.poll_next_unpin(cx), Poll::Ready(Some(()))) {
                    return Poll::Pending;
                }
            }
        })
        .await;
        // This tells the verbs in flight that the connection has ended.
        drop(driver);
        while sending.next().await.is_some() {}
    }

    /// Ends the wait of all verbs that will not be sent.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let gone = (mem::take(&mut state.queue), state.waker.take());
        drop(state);
        // Outside the lock, because this wakes tasks.
        drop(gone);
    }

    /// The next batch, if it is due. If not, the task is woken when it is.
    fn next(&self, waker: &Waker) -> Option<(Vec<QueuedRequest>, InFlight<'_>)> {
        let mut state = self.state();
        let batch = if state.is_due() { state.take() } else { Vec::new() };
        if batch.is_empty() {
            let former = state.waker.replace(waker.clone());
            drop(state);
            drop(former);
            return None;
        }
        let in_flight = InFlight::new(self, &mut state, 1, batch.len());
        Some((batch, in_flight))
    }

    async fn send_batch(
        &self,
        multiplexed: MultiplexedConnection,
        batch: Vec<QueuedRequest>,
        _until_answered: InFlight<'_>,
    ) {
        if send_together(&multiplexed, batch).await {
            self.state().unbatched = true;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn is_due(&self) -> bool {
        let max = if self.queue.len() >= self.batch_size() { MAX_FULL_BATCHES } else { MAX_BATCHES };
        !self.queue.is_empty() && self.batches < max
    }

    /// How many verbs make a full batch now.
    fn batch_size(&self) -> usize {
        if self.unbatched { 1 } else { ((self.queue.len() + self.verbs) / SHARE).clamp(1, MAX_VERBS) }
    }

    /// Takes one batch from the front of the queue, without the verbs whose callers no longer wait.
    fn take(&mut self) -> Vec<QueuedRequest> {
        let batch_size = self.batch_size();
        let (mut batch, mut bytes) = (Vec::with_capacity(batch_size), 0);
        while let Some(next) = self.queue.front() {
            bytes += next.request.size();
            if batch.len() == batch_size || (bytes > MAX_BYTES && !batch.is_empty()) {
                break;
            }
            batch.extend(self.queue.pop_front().filter(|queued| !queued.is_given_up()));
        }
        batch
    }

    /// The waker of the sending task, if a batch is due.
    fn take_waker_if_due(&mut self) -> Option<Waker> {
        if self.is_due() { self.waker.take() } else { None }
    }
}

/// A batch or a verb that counts as in flight until this value is dropped.
pub(super) struct InFlight<'a> {
    batcher: &'a Batcher,
    batches: usize,
    verbs: usize,
}

impl<'a> InFlight<'a> {
    fn new(sender: &'a Batcher, state: &mut State, batches: usize, verbs: usize) -> Self {
        state.batches += batches;
        state.verbs += verbs;
        Self { batcher: sender, batches, verbs }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        // In a forked child, the state may stay locked forever by a thread that exists only in the parent.
        if self.batcher.pid != std::process::id() {
            return;
        }
        let mut state = self.batcher.state();
        state.batches -= self.batches;
        state.verbs -= self.verbs;
        let waker = state.take_waker_if_due();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Batcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Batcher")
            .field("queued", &state.queue.len())
            .field("in_flight", &state.verbs)
            .finish_non_exhaustive()
    }
}
