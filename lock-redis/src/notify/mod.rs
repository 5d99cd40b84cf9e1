//! [`Notifications`]: delivers what the server publishes to the waiters of this process.

mod health;
pub(crate) mod message;
mod subscriber;
mod subscription;

use std::{mem, sync::Arc};

use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_util::future::join;
use lock_core::{
    Alarms, BackendErrorKind as Kind, EntryId, Hints, Keeper, RuntimeSelector,
    sync::{Mutex, MutexGuard},
};
use tokio::sync::oneshot;

pub(crate) use self::subscriber::Subscriber;
use self::{health::Health, subscriber::Evictions, subscription::Subscription};
use crate::{client::Endpoint, error::Failure, keys};

/// One [`Subscriber`] for each runtime on which a task has waited for a lock, so that a hint wakes its waiter on the
/// runtime where it arrives; and the keeper's, which receives evictions too. Dropping it closes the connections.
#[derive(Debug)]
pub(crate) struct Notifications {
    endpoint: Arc<Endpoint>,
    runtimes: Arc<RuntimeSelector>,
    keeper_subscriber: Arc<Subscriber>,
    /// At most one open subscriber for each runtime. A `Vec` suffices, for a process has few runtimes.
    per_runtime: Mutex<Vec<Arc<Subscriber>>>,
    eviction_channel: Vec<u8>,
    alarms: Arc<Mutex<Vec<UnboundedSender<EntryId>>>>,
    health: Arc<Health>,
}

impl Notifications {
    /// No connection is opened yet.
    pub(crate) fn new(endpoint: Arc<Endpoint>, runtimes: Arc<RuntimeSelector>) -> Self {
        let (eviction_channel, alarms) = (keys::channel(&endpoint.config.prefix, "e"), Arc::default());
        let evictions = Evictions { channel: eviction_channel.clone(), alarms: Arc::clone(&alarms) };
        let health = Arc::new(Health::new(runtimes.keeper()));
        let keeper_subscriber = Subscriber::new(None, &endpoint, &runtimes, Some(evictions), &health);
        Self {
            endpoint,
            runtimes,
            keeper_subscriber: Arc::new(keeper_subscriber),
            per_runtime: Mutex::default(),
            eviction_channel,
            alarms,
            health,
        }
    }

    /// The channel that announces evicted entries to all processes.
    pub(crate) fn eviction_channel(&self) -> &[u8] {
        &self.eviction_channel
    }

    /// Hints for an entry from now on, and the subscriber whose channel the entry has to name to get them. Subscribes if that is
    /// not done yet, and waits until it has succeeded or failed once, for at most `command_timeout`.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(crate) async fn listen(&self, entry: EntryId) -> (Arc<Subscriber>, Hints) {
        let own = self.current_or_new();
        // A waiter may become the holder, and then has to learn of its eviction.
        self.keeper_subscriber.start(None);
        join(own.live(), self.keeper_subscriber.live()).await;
        let hints = own.hints(entry);
        if own.is_closed() {
            // The runtime cannot drive a connection, or is being shut down while its caller goes on elsewhere.
            return (Arc::clone(&self.keeper_subscriber), self.keeper_subscriber.hints(entry));
        }
        (own, hints)
    }

    /// Subscribes to the evictions of entries, as a holder needs it, if that is not done yet, and waits until it has succeeded or
    /// failed once, for at most `command_timeout`.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(crate) async fn hear_of_evictions(&self) {
        self.keeper_subscriber.start(None);
        self.keeper_subscriber.live().await;
    }

    /// The subscriber of the calling task's runtime, or the keeper's if it has none. Opens nothing.
    pub(crate) fn current(&self) -> Arc<Subscriber> {
        let runtime = self.runtimes.current().map(|runtime| runtime.id());
        let per_runtime = self.per_runtime();
        let own =
            per_runtime.iter().find(|one| runtime.is_some() && one.runtime == runtime && !one.is_closed());
        Arc::clone(own.unwrap_or(&self.keeper_subscriber))
    }

    /// Entries of any process that are evicted from now on. Subscribes if that is not done yet, but does not wait.
    pub(crate) fn alarms(&self) -> Alarms {
        self.keeper_subscriber.start(None);
        let (sender, alarms) = unbounded();
        self.alarms.lock().push(sender);
        Box::pin(alarms)
    }

    /// The permissions that hints need and that are missing. Asks on a connection of its own, which the keeper drives.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(crate) async fn problems(&self) -> Result<Vec<String>, Failure> {
        let (endpoint, keeper) = (Arc::clone(&self.endpoint), self.runtimes.keeper().clone());
        let channels = [self.keeper_subscriber.channel().to_vec(), self.eviction_channel.clone()];
        let (tell, told) = oneshot::channel();
        self.runtimes.keeper().spawn(async move {
            let limit = endpoint.config.server.connect_timeout;
            let asked =
                keeper.timeout_at(keeper.now() + limit, problems(&endpoint, &keeper, &channels)).await;
            let late = || Err(Failure::timed_out(&endpoint.address, "subscribing", limit));
            // The caller may no longer wait.
            let _ = tell.send(asked.unwrap_or_else(late));
        });
        told.await.unwrap_or_else(|_| Err(Failure::new(Kind::Unavailable, "the keeper has ended")))
    }

    /// The subscriber of the calling task's runtime; started, unless it is the keeper's.
    fn current_or_new(&self) -> Arc<Subscriber> {
        let Some(runtime) = self.runtimes.current() else {
            return Arc::clone(&self.keeper_subscriber);
        };
        let id = Some(runtime.id());
        let mut per_runtime = self.per_runtime();
        if let Some(own) = per_runtime.iter().find(|one| one.runtime == id && !one.is_closed()) {
            return Arc::clone(own);
        }
        let (gone, mut kept): (Vec<_>, Vec<_>) =
            mem::take(&mut *per_runtime).into_iter().partition(|one| one.is_closed());
        let own = Arc::new(Subscriber::new(id, &self.endpoint, &self.runtimes, None, &self.health));
        kept.push(Arc::clone(&own));
        *per_runtime = kept;
        drop(per_runtime);
        // Outside the lock: dropping a subscriber and spawning a task run foreign code.
        drop(gone);
        own.start(Some(&runtime));
        own
    }

    fn per_runtime(&self) -> MutexGuard<'_, Vec<Arc<Subscriber>>> {
        self.per_runtime.lock()
    }
}

async fn problems(
    endpoint: &Endpoint,
    keeper: &Keeper,
    channels: &[Vec<u8>; 2],
) -> Result<Vec<String>, Failure> {
    let mut socket = endpoint.open(keeper).await?;
    let mut problems = Vec::new();
    if health::is_publish_denied(&mut socket, endpoint, &channels[0]).await? {
        problems.push(health::not_permitted(endpoint, health::PUBLISH));
    }
    match Subscription::open(socket, endpoint, &channels.each_ref().map(Vec::as_slice)).await {
        Ok(_) => Ok(problems),
        // The message names one command that permits both.
        Err(failure) if *failure.kind() == Kind::Denied => Ok(vec![failure.message().to_owned()]),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests;
