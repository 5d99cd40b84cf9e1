//! [`Wire`]: requests to the cluster and their answers.

mod cluster;
mod lane;
mod terminal;

use std::{future::Future, pin::pin, sync::Arc, task::Poll};

use etcd_client::{Txn, TxnResponse};
use futures_util::future::poll_fn;
use lock_core::{BootTime, Keeper};

pub(crate) use self::{cluster::Cluster, lane::Link};
use self::{lane::Lane, terminal::Terminal};
use crate::error::{Cause, Failure};

/// Sends requests, on the caller's own runtime where it has one. Cheap to clone; the last one to go closes all
/// connections.
///
/// * Opening is lazy, single-flight, and bounded by `connect_timeout`. It goes to whichever endpoint answers, and stays
///   there: the client's own balancing would give every third request to a dead member (E4).
/// * An answer is bounded by `command_timeout`, on the keeper's timers: it needs no timers of the caller's runtime. The
///   client has no limits of its own (E1, E3).
/// * Nothing is sent twice, unless it certainly was not sent. A connection that broke, or did not answer in time, gets no
///   more requests; the next one opens another, to another member if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Wire(Arc<Terminal>);

impl Wire {
    /// No connection is opened yet.
    pub(crate) fn new(cluster: Arc<Cluster>, keeper: Keeper) -> Self {
        Self(Arc::new(Terminal::new(cluster, keeper)))
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.0.cluster
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.0.keeper
    }

    /// Sends a transaction.
    ///
    /// # Cancel safety
    /// Safe to drop. The transaction may have been carried out.
    pub(crate) async fn txn(&self, txn: Txn) -> Result<TxnResponse, Failure> {
        self.call(|link| {
            let (mut kv, txn) = (link.kv.clone(), txn.clone());
            async move { kv.txn(txn).await }
        })
        .await
    }

    /// Makes a request, within `command_timeout`. It is made again only if it was certainly not sent.
    ///
    /// # Cancel safety
    /// Safe to drop. The request may have been carried out.
    pub(crate) async fn call<T, F>(&self, request: impl Fn(&Link) -> F + Send) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let limit = self.0.cluster.config.command_timeout;
        self.call_within(limit, request).await
    }

    /// The same with another time limit.
    pub(crate) async fn call_within<T, F>(
        &self,
        limit: std::time::Duration,
        request: impl Fn(&Link) -> F + Send,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let Terminal { keeper, .. } = &*self.0;
        let mut again = true;
        loop {
            let (lane, link) = self.connect().await?;
            let failure = match by(keeper, keeper.now() + limit, request(&link)).await {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(error)) => Failure::of(&link.address, &error),
                None => Failure::timed_out(&link.address, "a request", limit),
            };
            match failure.cause() {
                Cause::Member => self.0.fail(&lane, &link),
                // A new connection is let in anew.
                Cause::StaleToken => self.0.retire(&lane),
                _ => {}
            }
            // The connection had ended long ago: another member may do.
            if !(failure.is_unsent() && std::mem::take(&mut again)) {
                return Err(failure);
            }
        }
    }

    /// The connection of this runtime, for whoever keeps a stream on it.
    pub(crate) async fn link(&self) -> Result<Held, Failure> {
        let (lane, link) = self.connect().await?;
        Ok(Held { terminal: Arc::clone(&self.0), lane, link })
    }

    async fn connect(&self) -> Result<(Arc<Lane>, Arc<Link>), Failure> {
        let Terminal { cluster, keeper, .. } = &*self.0;
        loop {
            let lane = self.0.lane();
            match lane.link(cluster, keeper).await {
                Ok(link) => return Ok((lane, link)),
                // The caller's runtime has no I/O, or no timers; the keeper's has both.
                Err(failure)
                    if failure.kind() == &lock_core::BackendErrorKind::Panicked && lane.home.is_some() => {}
                Err(failure) => {
                    self.0.retire(&lane);
                    return Err(failure.unsent());
                }
            }
        }
    }
}

/// A connection that somebody keeps a stream on.
pub(crate) struct Held {
    terminal: Arc<Terminal>,
    lane: Arc<Lane>,
    pub(crate) link: Arc<Link>,
}

impl Held {
    /// The member does not do: another one is tried first the next time.
    pub(crate) fn fail(&self) {
        self.terminal.fail(&self.lane, &self.link);
    }
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
