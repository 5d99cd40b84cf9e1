//! [`RuntimeSelector`]: which runtime serves a caller.

use std::{
    fmt,
    future::Future,
    sync::{Arc, OnceLock},
};

use tokio::runtime::{Handle, Id};

use crate::{
    Keeper,
    sync::{Mutex, MutexGuard},
};

/// Which runtime drives the connection that serves a caller.
///
/// A caller is served by its own runtime: there is no thread hop, and a runtime that is blocked or shut down stalls only its own
/// callers. The keeper's connections serve callers without a tokio runtime, and callers whose runtime has no I/O driver.
///
/// A backend has one, for its [`ConnectionPool`](crate::ConnectionPool) and for other connections that belong to the runtime of a caller,
/// such as one for notifications: what one of them learns of a runtime counts for all.
pub struct RuntimeSelector {
    keeper: Keeper,
    /// The keeper's own runtime, once it is known.
    keepers_runtime: Arc<OnceLock<Id>>,
    /// Runtimes without an I/O driver.
    without_io: Mutex<Vec<Id>>,
}

impl RuntimeSelector {
    /// No runtime is known yet, and each is taken to have an I/O driver.
    #[must_use]
    pub fn new(keeper: Keeper) -> Self {
        let keepers_runtime = Arc::new(OnceLock::new());
        let told = Arc::clone(&keepers_runtime);
        // Runs before any verb that the keeper runs for us.
        keeper.spawn(async move { told.set(Handle::current().id()).unwrap_or_default() });
        Self { keeper, keepers_runtime, without_io: Mutex::default() }
    }

    /// The keeper, whose clock counts all time limits.
    #[must_use]
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The runtime that serves the calling task; `None` is the keeper's.
    #[must_use]
    pub fn current(&self) -> Option<Handle> {
        let runtime = Handle::try_current().ok()?;
        let usable =
            self.keepers_runtime.get() != Some(&runtime.id()) && !self.without_io().contains(&runtime.id());
        usable.then_some(runtime)
    }

    /// Spawns a task on a runtime; without one, on the keeper's. A runtime that is being shut down drops the task immediately.
    pub fn spawn(&self, runtime: Option<&Handle>, task: impl Future<Output = ()> + Send + 'static) {
        match runtime {
            Some(runtime) => drop(runtime.spawn(task)),
            None => self.keeper.spawn(task),
        }
    }

    /// The runtime has no I/O driver: from now on the keeper serves its callers.
    pub fn mark_without_io(&self, runtime: Id) {
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
