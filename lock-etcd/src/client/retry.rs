//! How a request is sent, and sent again.

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

/// A request may be sent so often beside one that is not answered, while the [budget](super::hedge_budget::HedgeBudget) lasts.
const MAX_HEDGES: u32 = 2;

/// So long after the cluster said that it is not ready it is asked again: an election takes some of these.
const NOT_READY_DELAY: Duration = Duration::from_millis(100);

/// Where a try was made, if it came so far.
type Target = Option<(Arc<Connection>, Arc<Channel>)>;

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) answer: Result<T, Failure>,
    /// It was sent, once or more, without being answered: so often it may still be carried out, or was.
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
            // Boxed, as what follows a failure is: whatever is rare is not carried by every request.
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

    /// Goes on with a request whose first try has failed or is not answered: sends it again, also beside the first, until `limit`
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
        // How many have begun to be sent, and how many of those have ended: one that still waits for a connection does not count.
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
                // What is not answered at all is not answered to others, either.
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

    /// Asks the member how it is, over a connection on which something is not answered, and whatever it says.
    ///
    /// What the client is given in the moment in which its connection ends may stay between its tasks, neither sent nor failed, until it
    /// is given something else (seen with hyper 1.12, once in 100 to 300 times on a busy machine). Then that fails at once, and is
    /// sent again. A member that is only slow is asked for nothing that changes anything.
    async fn probe(&self, channel: &Channel, from: BootTime) {
        self.keeper().sleep_until(from).await;
        if self.hedges.spend() {
            // What there is to learn from it is learned by those who wait.
            let _ = channel.client().maintenance_client().status().await;
        }
    }

    /// One more try, not before `from`.
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
            // A new connection authenticates again. And an answer that is too large to be ours is not waited for.
            Cause::StaleToken | Cause::TooLarge => self.retire(connection),
            _ => {}
        }
    }

    /// A connection. A cluster that has no leader may have one soon.
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

/// After which time the same request is worth sending again, if it is.
fn retry_delay(failure: &Failure, was_connected: bool) -> Option<Duration> {
    match (failure.kind(), failure.cause()) {
        (_, Cause::LeaseGone) | (Kind::Denied, _) => None,
        // A cluster that is not ready gets some time.
        (Kind::Unavailable, _) => Some(NOT_READY_DELAY),
        // What broke goes elsewhere at once. If nobody can be connected to, that is the answer.
        (_, Cause::Member) if was_connected => Some(Duration::ZERO),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
