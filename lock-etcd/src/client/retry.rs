//! Sends requests, and repeats them.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, future::Either, stream::FuturesUnordered};
use lock_core::{BackendErrorKind as Kind, BootTime};

use super::{
    channel::Channel,
    connections::{Connection, Connections},
};
use crate::error::{Cause, Failure};

/// How often a request may be sent again beside one that is not answered, as far as the [budget](super::hedge_budget::HedgeBudget) allows.
const MAX_HEDGES: u32 = 2;

/// How long after the cluster said that it is not ready it is asked again. An election takes several times as long.
const NOT_READY_DELAY: Duration = Duration::from_millis(100);

/// The connection on which an attempt was made, if there was one.
type Target = Option<(Arc<Connection>, Arc<Channel>)>;

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) answer: Result<T, Failure>,
    /// Whether the request was sent without being answered, at least once: it may still be carried out, or was carried out already.
    pub(crate) unanswered: bool,
}

impl Connections {
    /// Makes a request within `limit`, and the time that it takes to open a connection.
    pub(super) async fn send_within<T, F>(
        &self,
        limit: Duration,
        request: impl Fn(&Arc<Channel>) -> F + Send + Sync,
    ) -> Outcome<T>
    where
        T: Send,
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let keeper = self.keeper();
        let target = match self.open_connection() {
            Some(target) => target,
            // Boxed, like the handling of a failure below, so that the futures of usual requests stay small.
            None => match Box::pin(self.connect_within(limit)).await {
                Ok(target) => target,
                Err(failure) => return Outcome { answer: Err(failure), unanswered: false },
            },
        };
        self.hedges.earn();
        let sent = keeper.now();
        let mut first = pin!(request(&target.1));
        let failed = match keeper.timeout_at(sent + limit / (MAX_HEDGES + 1), first.as_mut()).await {
            Some(Ok(answer)) => return Outcome { answer: Ok(answer), unanswered: false },
            Some(Err(error)) => Some(error),
            None => None,
        };
        let there = target.clone();
        let first = async move {
            let answer = match failed {
                Some(error) => Err(error),
                None => first.await,
            };
            (answer.map_err(|error| Failure::of(&there.1.address, &error)), Some(there))
        };
        Box::pin(self.retry(&request, target, first, sent, limit)).await
    }

    /// Continues a request whose first attempt has failed or is not answered: sends it again, also beside the first, until `limit`
    /// after it was sent.
    async fn retry<T, F>(
        &self,
        request: &(impl Fn(&Arc<Channel>) -> F + Send + Sync),
        (connection, channel): (Arc<Connection>, Arc<Channel>),
        first: impl Future<Output = (Result<T, Failure>, Target)> + Send,
        sent: BootTime,
        limit: Duration,
    ) -> Outcome<T>
    where
        T: Send,
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let keeper = self.keeper();
        let end = sent + limit;
        let mut hedges = if self.cluster().config.endpoints.len() > 1 { MAX_HEDGES } else { 0 };
        let mut next_hedge = sent + limit / (MAX_HEDGES + 1);
        let (mut unanswered, mut elsewhere) = (false, false);
        // How many attempts were sent, and how many of those have ended. An attempt that still waits for a connection does not count.
        let (begun, mut ended) = (AtomicU32::new(1), 0);
        let mut probe = pin!(self.probe(&channel, next_hedge));
        let mut probed = hedges > 0;
        let mut under_way = FuturesUnordered::new();
        under_way.push(Either::Left(first));
        loop {
            tokio::select! {
                biased;
                Some((answer, target)) = under_way.next() => {
                    ended += u32::from(target.is_some());
                    let failure = match answer {
                        Ok(answer) => {
                            let by_another = target.is_some_and(|(_, other)| !Arc::ptr_eq(&other, &channel));
                            if by_another && elsewhere {
                                channel.mark_unresponsive();
                            }
                            let unanswered = unanswered || begun.load(Ordering::Relaxed) > ended;
                            return Outcome { answer: Ok(answer), unanswered };
                        }
                        Err(failure) => failure,
                    };
                    self.apply(&failure, target.as_ref());
                    unanswered |= !failure.is_unsent() && !failure.is_an_answer();
                    match retry_delay(&failure, target.is_some()).map(|pause| keeper.now() + pause) {
                        Some(from) if from < end => under_way.push(Either::Right(self.attempt(request, from, &begun))),
                        _ if under_way.is_empty() => {
                            let failure = if unanswered { failure.perhaps_sent() } else { failure };
                            return Outcome { answer: Err(failure), unanswered };
                        }
                        _ => {}
                    }
                }
                // The member does not answer the requests of other callers, either.
                () = channel.until_unresponsive(), if hedges > 0 && !elsewhere => {
                    elsewhere = true;
                    under_way.push(Either::Right(self.attempt(request, keeper.now(), &begun)));
                }
                () = keeper.sleep_until(next_hedge), if hedges > 0 => {
                    hedges -= 1;
                    next_hedge = next_hedge + limit / (MAX_HEDGES + 1);
                    if self.hedges.spend() {
                        elsewhere = true;
                        self.fail(&connection, &channel);
                        under_way.push(Either::Right(self.attempt(request, keeper.now(), &begun)));
                    }
                }
                () = &mut probe, if !probed => probed = true,
                () = keeper.sleep_until(end) => {
                    self.fail(&connection, &channel);
                    let failure = Failure::timed_out(&channel.address, "a request", limit);
                    return Outcome { answer: Err(failure), unanswered: true };
                }
            }
        }
    }

    /// Asks for the status of the member, over a connection on which a request is not answered. The answer does not matter.
    ///
    /// A request that the client gets in the moment in which its connection ends may stay between its tasks, neither sent nor failed, until
    /// the client gets another request (seen with hyper 1.12, once in 100 to 300 times on a busy machine). Then the first one fails at
    /// once, and is sent again. If the member is only slow, the question for its status changes nothing.
    async fn probe(&self, channel: &Channel, from: BootTime) {
        self.keeper().sleep_until(from).await;
        if self.hedges.spend() {
            // If the connection has ended, the waiting request fails, too. So this answer is not needed.
            let _ = channel.client().maintenance_client().status().await;
        }
    }

    /// One more attempt, not before `from`.
    async fn attempt<T, F>(
        &self,
        request: &(impl Fn(&Arc<Channel>) -> F + Send + Sync),
        from: BootTime,
        begun: &AtomicU32,
    ) -> (Result<T, Failure>, Target)
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        self.keeper().sleep_until(from).await;
        let (connection, channel) = match self.connect().await {
            Ok(target) => target,
            Err(failure) => return (Err(failure), None),
        };
        begun.fetch_add(1, Ordering::Relaxed);
        let answer = request(&channel).await.map_err(|error| Failure::of(&channel.address, &error));
        (answer, Some((connection, channel)))
    }

    /// Closes a connection that the next requests should not get.
    fn apply(&self, failure: &Failure, target: Option<&(Arc<Connection>, Arc<Channel>)>) {
        let Some((connection, channel)) = target else { return };
        match failure.cause() {
            Cause::Member => self.fail(connection, channel),
            // A new connection authenticates again. And the client does not wait for the rest of an answer that is too large.
            Cause::StaleToken | Cause::TooLarge => self.retire(connection),
            _ => {}
        }
    }

    /// Opens a connection. Tries again if the cluster is not ready, because it may have a leader soon.
    async fn connect_within(&self, limit: Duration) -> Result<(Arc<Connection>, Arc<Channel>), Failure> {
        let keeper = self.keeper();
        let end = keeper.now() + limit;
        loop {
            match self.connect().await {
                Err(failure)
                    if *failure.kind() == Kind::Unavailable && keeper.now() + NOT_READY_DELAY < end =>
                {
                    keeper.sleep_until(keeper.now() + NOT_READY_DELAY).await;
                }
                done => return done,
            }
        }
    }
}

/// After which time the same request should be sent again. `None` if it should not.
fn retry_delay(failure: &Failure, was_connected: bool) -> Option<Duration> {
    match (failure.kind(), failure.cause()) {
        (_, Cause::LeaseGone) | (Kind::Denied, _) => None,
        // Give a cluster that is not ready some time.
        (Kind::Unavailable, _) => Some(NOT_READY_DELAY),
        // After a broken connection, try another member immediately. If no member can be reached, report that.
        (_, Cause::Member) if was_connected => Some(Duration::ZERO),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
