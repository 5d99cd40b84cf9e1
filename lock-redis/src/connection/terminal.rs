//! [`Terminal`]: the lanes to one server, one for each runtime that calls.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lock_core::Keeper;

use super::{Endpoint, Homes, demotion::Demotion, doors::Doors, lane::Lane};

/// The lanes to one server, one for each of its [`Homes`].
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) homes: Arc<Homes>,
    pub(super) demotion: Arc<Demotion>,
    pub(super) doors: Doors,
    /// At most one that is not over for each home; few, for a process has few runtimes.
    lanes: Mutex<Vec<Arc<Lane>>>,
}

impl Terminal {
    pub(super) fn new(endpoint: Arc<Endpoint>, homes: Arc<Homes>) -> Self {
        let (demotion, doors) = (Arc::default(), Doors::default());
        Self { endpoint, homes, demotion, doors, lanes: Mutex::default() }
    }

    pub(super) fn keeper(&self) -> &Keeper {
        &self.homes.keeper
    }

    /// The lane for whoever calls, which may still be being opened.
    pub(super) fn lane(self: &Arc<Self>) -> Arc<Lane> {
        let runtime = self.homes.here();
        let home = runtime.as_ref().map(tokio::runtime::Handle::id);
        let mut lanes = self.lock();
        if let Some(lane) = lanes.iter().find(|lane| lane.home == home && !lane.is_over()) {
            return Arc::clone(lane);
        }
        let (lane, drive) = Lane::new(home, self);
        lanes.push(Arc::clone(&lane));
        // Only now: a runtime that is being shut down drops the task at once, and that comes back to `retire`.
        drop(lanes);
        self.homes.spawn(runtime.as_ref(), drive);
        lane
    }

    /// Gives no more commands to a lane. It lives on while somebody waits for an answer on it.
    pub(super) fn retire(&self, lane: &Arc<Lane>) {
        let mut lanes = self.lock();
        let (gone, kept) =
            mem::take(&mut *lanes).into_iter().partition(|one| Arc::ptr_eq(one, lane) || one.is_over());
        *lanes = kept;
        drop(lanes);
        // Only now: the last one to have a lane aborts its task, and that is code of others.
        let gone: Vec<Arc<Lane>> = gone;
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Lane>>> {
        // Nothing panics while the lanes are held, and each change to them is whole.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
