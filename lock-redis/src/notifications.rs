//! [`Notifications`]: what the server says unasked, and who in this process is to hear it.

mod listener;
pub(crate) mod message;
mod subscription;
mod voice;

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_util::future::join;
use lock_core::{Alarms, BackendErrorKind as Kind, EntryId, Hints, Keeper};
use tokio::sync::oneshot;

pub(crate) use self::listener::Listener;
use self::{listener::Evictions, subscription::Subscription, voice::Voice};
use crate::{
    connection::{Endpoint, Homes, by},
    error::Failure,
};

/// One [`Listener`] for each of the [`Homes`] that has waited for a lock, so that a hint wakes its waiter where it
/// arrives; and the keeper's, which hears of evictions too. Dropping it closes the connections.
#[derive(Debug)]
pub(crate) struct Notifications {
    endpoint: Arc<Endpoint>,
    homes: Arc<Homes>,
    keepers: Arc<Listener>,
    /// At most one that is not over for each home; few, for a process has few runtimes.
    others: Mutex<Vec<Arc<Listener>>>,
    eviction_channel: Vec<u8>,
    alarms: Arc<Mutex<Vec<UnboundedSender<EntryId>>>>,
    voice: Arc<Voice>,
}

impl Notifications {
    /// No connection is opened yet.
    pub(crate) fn new(endpoint: Arc<Endpoint>, homes: Arc<Homes>) -> Self {
        let (eviction_channel, alarms) = (channel(&endpoint, "e"), Arc::default());
        let evictions = Evictions { channel: eviction_channel.clone(), alarms: Arc::clone(&alarms) };
        let voice = Arc::new(Voice::new(&homes.keeper));
        let keepers = Listener::new(None, &endpoint, &homes, Some(evictions), &voice);
        Self {
            endpoint,
            homes,
            keepers: Arc::new(keepers),
            others: Mutex::default(),
            eviction_channel,
            alarms,
            voice,
        }
    }

    /// Where everybody is told that an entry was evicted.
    pub(crate) fn eviction_channel(&self) -> &[u8] {
        &self.eviction_channel
    }

    /// Hints for an entry from now on, and the listener that the entry has to name to get them. Subscribes if that was
    /// not done, and waits until it has succeeded or failed once, for `command_timeout` at the most.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(crate) async fn listen(&self, entry: EntryId) -> (Arc<Listener>, Hints) {
        let own = self.own();
        // Whoever waits may hold next, and then has to hear of an eviction.
        self.keepers.start(None);
        join(own.live(), self.keepers.live()).await;
        let hints = own.hints(entry);
        if own.is_over() {
            // The runtime cannot drive a connection, or is being shut down while its caller goes on elsewhere.
            return (Arc::clone(&self.keepers), self.keepers.hints(entry));
        }
        (own, hints)
    }

    /// The listener of whoever calls, or the keeper's if he has none. Opens nothing.
    pub(crate) fn here(&self) -> Arc<Listener> {
        let home = self.homes.here().map(|runtime| runtime.id());
        let others = self.others();
        let own = others.iter().find(|one| home.is_some() && one.home == home && !one.is_over());
        Arc::clone(own.unwrap_or(&self.keepers))
    }

    /// Entries of whichever process that were evicted, from now on. Subscribes if that was not done, but does not wait.
    pub(crate) fn alarms(&self) -> Alarms {
        self.keepers.start(None);
        let (sender, alarms) = unbounded();
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Box::pin(alarms)
    }

    /// What is not permitted that hints need. Asks on a connection of its own, which the keeper drives.
    ///
    /// # Cancel safety
    /// Safe to drop.
    pub(crate) async fn problems(&self) -> Result<Vec<String>, Failure> {
        let (endpoint, keeper) = (Arc::clone(&self.endpoint), self.homes.keeper.clone());
        let channels = [self.keepers.channel().to_vec(), self.eviction_channel.clone()];
        let (tell, told) = oneshot::channel();
        self.homes.keeper.spawn(async move {
            let limit = endpoint.config.connect_timeout;
            let asked = by(&keeper, keeper.now() + limit, problems(&endpoint, &keeper, &channels)).await;
            let late = || Err(Failure::timed_out(&endpoint.address, "subscribing", limit));
            // Whoever asked may no longer wait.
            let _ = tell.send(asked.unwrap_or_else(late));
        });
        told.await.unwrap_or_else(|_| Err(Failure::new(Kind::Unavailable, "the keeper has ended")))
    }

    /// The listener of whoever calls; started, unless it is the keeper's.
    fn own(&self) -> Arc<Listener> {
        let Some(runtime) = self.homes.here() else {
            return Arc::clone(&self.keepers);
        };
        let home = Some(runtime.id());
        let mut others = self.others();
        if let Some(own) = others.iter().find(|one| one.home == home && !one.is_over()) {
            return Arc::clone(own);
        }
        let (gone, mut kept): (Vec<_>, Vec<_>) =
            mem::take(&mut *others).into_iter().partition(|one| one.is_over());
        let own = Arc::new(Listener::new(home, &self.endpoint, &self.homes, None, &self.voice));
        kept.push(Arc::clone(&own));
        *others = kept;
        drop(others);
        // Only now: to drop a listener and to spawn a task run code of others.
        drop(gone);
        own.start(Some(&runtime));
        own
    }

    fn others(&self) -> MutexGuard<'_, Vec<Arc<Listener>>> {
        // Nothing panics while they are held, and each change to them is whole.
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn problems(
    endpoint: &Endpoint,
    keeper: &Keeper,
    channels: &[Vec<u8>; 2],
) -> Result<Vec<String>, Failure> {
    let mut socket = endpoint.open(keeper).await?;
    let mut problems = Vec::new();
    if voice::is_refused(&mut socket, endpoint, &channels[0]).await? {
        problems.push(voice::refused(endpoint, voice::PUBLISH));
    }
    match Subscription::over(socket, endpoint, &channels.each_ref().map(Vec::as_slice)).await {
        Ok(_) => Ok(problems),
        // One command permits both.
        Err(failure) if *failure.kind() == Kind::Denied => Ok(vec![failure.message().to_owned()]),
        Err(failure) => Err(failure),
    }
}

/// A channel that no other kind of key or client can meet.
fn channel(endpoint: &Endpoint, rest: &str) -> Vec<u8> {
    [endpoint.config.prefix.as_bytes(), b"\xff1", rest.as_bytes()].concat()
}

#[cfg(test)]
mod tests;
