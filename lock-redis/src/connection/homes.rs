//! [`Homes`]: which runtime serves a caller.

use std::{
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use lock_core::Keeper;
use tokio::runtime::{Handle, Id};

/// Connections belong to a runtime, because a runtime drives them.
///
/// A caller is served by the runtime it runs on: no thread hop on the way, and a runtime that is blocked or shut down
/// stalls only its own callers. The keeper has connections as well, which also serve callers without a tokio runtime,
/// and those whose runtime cannot drive one.
pub(crate) struct Homes {
    pub(crate) keeper: Keeper,
    /// The keeper's own runtime, as soon as it told.
    keepers_id: Arc<OnceLock<Id>>,
    /// Runtimes without I/O.
    unfit: Mutex<Vec<Id>>,
}

impl Homes {
    pub(crate) fn new(keeper: Keeper) -> Self {
        let keepers_id = Arc::new(OnceLock::new());
        let told = Arc::clone(&keepers_id);
        // Runs before any verb that the keeper runs for us.
        keeper.spawn(async move { told.set(Handle::current().id()).unwrap_or_default() });
        Self { keeper, keepers_id, unfit: Mutex::default() }
    }

    /// The runtime that serves whoever calls; `None` is the keeper's.
    pub(crate) fn here(&self) -> Option<Handle> {
        let runtime = Handle::try_current().ok()?;
        let fit = self.keepers_id.get() != Some(&runtime.id()) && !self.unfit().contains(&runtime.id());
        fit.then_some(runtime)
    }

    /// Starts a task at a home.
    pub(crate) fn spawn(&self, home: Option<&Handle>, task: impl Future<Output = ()> + Send + 'static) {
        match home {
            Some(runtime) => drop(runtime.spawn(task)),
            None => self.keeper.spawn(task),
        }
    }

    /// A runtime without I/O: from now on the keeper serves its callers.
    pub(crate) fn is_unfit(&self, home: Id) {
        self.unfit().push(home);
    }

    fn unfit(&self) -> MutexGuard<'_, Vec<Id>> {
        // Nothing panics while it is held.
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Homes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Homes").field("unfit", &self.unfit()).finish_non_exhaustive()
    }
}
