//! [`Terminal`]: the lanes to one cluster, one for each runtime that calls.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use lock_core::{Keeper, Paced};
use tokio::runtime::{Handle, Id};

use super::{
    budget::Budget,
    cluster::Cluster,
    lane::{Lane, Link},
};

/// The lanes to one cluster.
///
/// A caller is served by the runtime it runs on: no thread hop on the way, and a runtime that is blocked or shut down
/// stalls only its own callers. The keeper has a lane as well, which also serves callers without a tokio runtime.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) cluster: Arc<Cluster>,
    pub(super) keeper: Keeper,
    /// The keeper's own runtime, as soon as it told.
    keepers_id: Arc<OnceLock<Id>>,
    /// For requests that are sent beside others.
    pub(super) beside: Budget,
    /// What everybody who has it says of the cluster.
    pub(super) paced: Paced<&'static str>,
    lanes: Mutex<Lanes>,
}

#[derive(Debug, Default)]
struct Lanes {
    /// At most one that is not over for each home; few, for a process has few runtimes.
    all: Vec<Arc<Lane>>,
    /// Runtimes that cannot drive a connection. The keeper serves their callers.
    without_io: Vec<Id>,
}

impl Terminal {
    pub(super) fn new(cluster: Arc<Cluster>, keeper: Keeper) -> Self {
        let keepers_id = Arc::new(OnceLock::new());
        let told = Arc::clone(&keepers_id);
        // Runs before any verb that the keeper runs for us.
        keeper.spawn(async move { told.set(Handle::current().id()).unwrap_or_default() });
        let paced = Paced::new(&keeper);
        Self { cluster, keeper, keepers_id, beside: Budget::new(), paced, lanes: Mutex::default() }
    }

    /// The lane for whoever calls, which may still be being opened.
    pub(super) fn lane(self: &Arc<Self>) -> Arc<Lane> {
        let runtime = Handle::try_current().ok();
        let home = runtime.as_ref().map(Handle::id).filter(|id| self.keepers_id.get() != Some(id));
        let mut lanes = self.lock();
        let home = home.filter(|id| !lanes.without_io.contains(id));
        if let Some(lane) = lanes.all.iter().find(|lane| lane.home == home && !lane.is_over()) {
            return Arc::clone(lane);
        }
        let (lane, drive) = Lane::new(home, self);
        lanes.all.push(Arc::clone(&lane));
        // Only now: a runtime that is being shut down drops the task at once, and that comes back to `remove`.
        drop(lanes);
        match runtime {
            Some(runtime) if home.is_some() => drop(runtime.spawn(drive)),
            _ => self.keeper.spawn(drive),
        }
        lane
    }

    /// Gives no more requests to a lane. It lives on while somebody waits for an answer on it.
    pub(super) fn retire(&self, lane: &Arc<Lane>) {
        self.remove(lane, false);
    }

    /// The same, because of the member: the next lane is opened to another one, if there is one.
    pub(super) fn fail(&self, lane: &Arc<Lane>, link: &Link) {
        self.cluster.avoid(link.endpoint);
        if lane.home.is_none() {
            // The keeper is never blocked: what it finds is so for all.
            let mut lanes = self.lock();
            let there = |one: &Arc<Lane>| one.opened().is_some_and(|opened| opened.endpoint == link.endpoint);
            let (gone, kept): (Vec<_>, Vec<_>) = mem::take(&mut lanes.all).into_iter().partition(there);
            lanes.all = kept;
            drop(lanes);
            drop(gone);
        }
        self.remove(lane, false);
    }

    pub(super) fn remove(&self, lane: &Arc<Lane>, without_io: bool) {
        let mut lanes = self.lock();
        let (gone, kept) =
            mem::take(&mut lanes.all).into_iter().partition(|one| Arc::ptr_eq(one, lane) || one.is_over());
        lanes.all = kept;
        lanes.without_io.extend(lane.home.filter(|_| without_io));
        drop(lanes);
        // Only now: the last one to have a lane aborts its task, and that is code of others.
        let gone: Vec<Arc<Lane>> = gone;
        drop(gone);
    }

    /// A lane of this runtime that is open to a link that was made for a test.
    #[cfg(test)]
    pub(super) fn put(&self, link: Link) {
        self.lock().all.push(Lane::open_to(link, Some(Handle::current().id())));
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        // Nothing panics while the lanes are held, and each change to them is whole.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
