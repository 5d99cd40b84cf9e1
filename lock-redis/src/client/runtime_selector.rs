//! [`RuntimeSelector`]: which runtime serves a caller.

use std::{
    fmt,
    future::Future,
    sync::{Arc, OnceLock},
};

use lock_core::{
    Keeper,
    sync::{Mutex, MutexGuard},
};
use tokio::runtime::{Handle, Id};

/// A connection belongs to the runtime that drives it.
///
/// A caller is served by its own runtime: there is no thread hop, and a runtime that is blocked or shut down stalls only its own
/// callers. The keeper's connections serve callers without a tokio runtime, and callers whose runtime has no I/O driver.
pub(crate) struct RuntimeSelector {
    pub(crate) keeper: Keeper,
    /// The keeper's own runtime, once it is known.
    keepers_runtime: Arc<OnceLock<Id>>,
    /// Runtimes without an I/O driver.
    without_io: Mutex<Vec<Id>>,
}

impl RuntimeSelector {
    pub(crate) fn new(keeper: Keeper) -> Self {
        let keepers_runtime = Arc::new(OnceLock::new());
        let told = Arc::clone(&keepers_runtime);
        // Runs before any verb that the keeper runs for us.
        keeper.spawn(async move { told.set(Handle::current().id()).unwrap_or_default() });
        Self { keeper, keepers_runtime, without_io: Mutex::default() }
    }

    /// The runtime that serves the calling task; `None` is the keeper's.
    pub(crate) fn current(&self) -> Option<Handle> {
        let runtime = Handle::try_current().ok()?;
        let usable =
            self.keepers_runtime.get() != Some(&runtime.id()) && !self.without_io().contains(&runtime.id());
        usable.then_some(runtime)
    }

    /// Spawns a task on a runtime; without one, on the keeper's.
    pub(crate) fn spawn(&self, runtime: Option<&Handle>, task: impl Future<Output = ()> + Send + 'static) {
        match runtime {
            Some(runtime) => drop(runtime.spawn(task)),
            None => self.keeper.spawn(task),
        }
    }

    /// The runtime has no I/O driver: from now on the keeper serves its callers.
    pub(crate) fn mark_without_io(&self, runtime: Id) {
        self.without_io().push(runtime);
    }

    fn without_io(&self) -> MutexGuard<'_, Vec<Id>> {
        self.without_io.lock()
    }
}

impl fmt::Debug for RuntimeSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeSelector").field("without_io", &self.without_io()).finish_non_exhaustive()
    }
}
