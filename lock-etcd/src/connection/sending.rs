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
    Sent, Wire, by,
    lane::{Lane, Link},
};
use crate::error::{Cause, Failure};

/// A request may be sent so often beside one that is not answered, while the [budget](super::budget::Budget) lasts.
const BESIDE: u32 = 2;

/// So long after the cluster said that it is not ready it is asked again: an election takes some of these.
const NOT_READY: Duration = Duration::from_millis(100);

/// Where a try was made, if it came so far.
type Place = Option<(Arc<Lane>, Arc<Link>)>;

impl Wire {
    /// Makes a request within `limit`, and the time that it takes to open a connection.
    pub(super) async fn send<T, F>(
        &self,
        limit: Duration,
        request: impl Fn(&Arc<Link>) -> F + Send + Sync,
    ) -> Sent<T>
    where
        T: Send,
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let keeper = self.keeper();
        let place = match self.open_already() {
            Some(place) => place,
            // Boxed, as what follows a failure is: whatever is rare is not carried by every request.
            None => match Box::pin(self.connect_in(limit)).await {
                Ok(place) => place,
                Err(failure) => return Sent { answer: Err(failure), unanswered: false },
            },
        };
        self.0.beside.earn();
        let sent = keeper.now();
        let mut first = pin!(request(&place.1));
        let failed = match by(keeper, sent + limit / (BESIDE + 1), first.as_mut()).await {
            Some(Ok(answer)) => return Sent { answer: Ok(answer), unanswered: false },
            Some(Err(error)) => Some(error),
            None => None,
        };
        let there = place.clone();
        let first = async move {
            let answer = match failed {
                Some(error) => Err(error),
                None => first.await,
            };
            (answer.map_err(|error| Failure::of(&there.1.address, &error)), Some(there))
        };
        Box::pin(self.persist(&request, place, first, sent, limit)).await
    }

    /// Goes on with a request whose first try has failed or is not answered: again, and beside it, until `limit` after it
    /// was sent.
    async fn persist<T, F>(
        &self,
        request: &(impl Fn(&Arc<Link>) -> F + Send + Sync),
        (lane, link): (Arc<Lane>, Arc<Link>),
        first: impl Future<Output = (Result<T, Failure>, Place)> + Send,
        sent: BootTime,
        limit: Duration,
    ) -> Sent<T>
    where
        T: Send,
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let keeper = self.keeper();
        let end = sent + limit;
        let mut beside = if self.cluster().config.endpoints.len() > 1 { BESIDE } else { 0 };
        let mut beside_at = sent + limit / (BESIDE + 1);
        let (mut unanswered, mut elsewhere) = (false, false);
        // How many have begun to be sent, and how many of those have ended: what still waits for a connection is in nobody's way.
        let (begun, mut ended) = (AtomicU32::new(1), 0);
        let mut nudge = pin!(self.nudge(&link, beside_at));
        let mut nudged = beside > 0;
        let mut under_way = FuturesUnordered::new();
        under_way.push(Either::Left(first));
        loop {
            tokio::select! {
                biased;
                Some((answer, place)) = under_way.next() => {
                    ended += u32::from(place.is_some());
                    let failure = match answer {
                        Ok(answer) => {
                            let by_another = place.is_some_and(|(_, other)| !Arc::ptr_eq(&other, &link));
                            if by_another && elsewhere {
                                link.give_up();
                            }
                            let unanswered = unanswered || begun.load(Ordering::Relaxed) > ended;
                            return Sent { answer: Ok(answer), unanswered };
                        }
                        Err(failure) => failure,
                    };
                    self.note(&failure, place.as_ref());
                    unanswered |= !failure.is_unsent() && !failure.is_an_answer();
                    match again(&failure, place.is_some()).map(|pause| keeper.now() + pause) {
                        Some(from) if from < end => under_way.push(Either::Right(self.one(request, from, &begun))),
                        _ if under_way.is_empty() => {
                            let failure = if unanswered { failure.perhaps_sent() } else { failure };
                            return Sent { answer: Err(failure), unanswered };
                        }
                        _ => {}
                    }
                }
                // What is not answered at all is not answered to others, either.
                () = link.given_up(), if beside > 0 && !elsewhere => {
                    elsewhere = true;
                    under_way.push(Either::Right(self.one(request, keeper.now(), &begun)));
                }
                () = keeper.sleep_until(beside_at), if beside > 0 => {
                    beside -= 1;
                    beside_at = beside_at + limit / (BESIDE + 1);
                    if self.0.beside.spend() {
                        elsewhere = true;
                        self.0.fail(&lane, &link);
                        under_way.push(Either::Right(self.one(request, keeper.now(), &begun)));
                    }
                }
                () = &mut nudge, if !nudged => nudged = true,
                () = keeper.sleep_until(end) => {
                    self.0.fail(&lane, &link);
                    let failure = Failure::timed_out(&link.address, "a request", limit);
                    return Sent { answer: Err(failure), unanswered: true };
                }
            }
        }
    }

    /// Asks the member how it is, over a connection on which something is not answered, and whatever it says.
    ///
    /// What the client is given in the moment in which its connection ends may stay between its tasks, neither sent nor failed, until it
    /// is given something else (seen with hyper 1.12, once in 100 to 300 times on a busy machine). Then that fails at once, and is
    /// sent again. A member that is only slow is asked for nothing that changes anything.
    async fn nudge(&self, link: &Link, from: BootTime) {
        self.keeper().sleep_until(from).await;
        if self.0.beside.spend() {
            // What there is to learn from it is learned by those who wait.
            let _ = link.client().maintenance_client().status().await;
        }
    }

    /// The connection of this runtime, if it is open.
    fn open_already(&self) -> Option<(Arc<Lane>, Arc<Link>)> {
        let lane = self.0.lane();
        let link = Arc::clone(lane.opened()?);
        Some((lane, link))
    }

    /// One more try, not before `from`.
    async fn one<T, F>(
        &self,
        request: &(impl Fn(&Arc<Link>) -> F + Send + Sync),
        from: BootTime,
        begun: &AtomicU32,
    ) -> (Result<T, Failure>, Place)
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        self.keeper().sleep_until(from).await;
        let (lane, link) = match self.connect().await {
            Ok(place) => place,
            Err(failure) => return (Err(failure), None),
        };
        begun.fetch_add(1, Ordering::Relaxed);
        let answer = request(&link).await.map_err(|error| Failure::of(&link.address, &error));
        (answer, Some((lane, link)))
    }

    /// Draws the conclusions for those who come next.
    fn note(&self, failure: &Failure, place: Option<&(Arc<Lane>, Arc<Link>)>) {
        let Some((lane, link)) = place else { return };
        match failure.cause() {
            Cause::Member => self.0.fail(lane, link),
            // A new connection is let in anew. And what is too large to be ours is not waited for.
            Cause::StaleToken | Cause::TooLarge => self.0.retire(lane),
            _ => {}
        }
    }

    /// A connection. A cluster that has no leader may have one soon.
    async fn connect_in(&self, limit: Duration) -> Result<(Arc<Lane>, Arc<Link>), Failure> {
        let keeper = self.keeper();
        let end = keeper.now() + limit;
        loop {
            match self.connect().await {
                Err(failure) if *failure.kind() == Kind::Unavailable && keeper.now() + NOT_READY < end => {
                    keeper.sleep_until(keeper.now() + NOT_READY).await;
                }
                done => return done,
            }
        }
    }
}

/// After which time the same request may do better, if it may.
fn again(failure: &Failure, was_connected: bool) -> Option<Duration> {
    match (failure.kind(), failure.cause()) {
        (_, Cause::LeaseGone) | (Kind::Denied, _) => None,
        // A cluster that is not ready gets some time.
        (Kind::Unavailable, _) => Some(NOT_READY),
        // What broke goes elsewhere at once. If nobody can be connected to, that is the answer.
        (_, Cause::Member) if was_connected => Some(Duration::ZERO),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
