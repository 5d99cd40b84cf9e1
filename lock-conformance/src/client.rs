//! [`Client`]: one client of the store, as a separate process would have it.

use std::{sync::Arc, time::Duration};

use lock_core::{
    AcquireOptions, Backend, Claim, Entropy, Entry, EntryId, Keeper, Lock, LockName, Locks, RwLock,
    Semaphore, SystemEntropy,
};

use crate::client_registry::ClientRecord;

/// A client with its own keeper thread and backend.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where its locks come from. Their options are [`options`](Self::options).
    pub locks: Locks,
    /// The backend behind them, with all layers.
    pub backend: Arc<dyn Backend>,
    /// Its keeper, which renews and cleans up.
    pub keeper: Keeper,
    options: AcquireOptions,
    record: Arc<ClientRecord>,
}

impl Client {
    /// A client on a backend that uses this keeper, outside of any [`TestEnv`](crate::TestEnv). These are the default options of its
    /// locks.
    #[must_use]
    pub fn on(backend: Arc<dyn Backend>, keeper: Keeper, options: AcquireOptions) -> Self {
        Self::new(backend, keeper, options, Arc::default())
    }

    /// A client of a backend whose layer nearest to the store is that record.
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        keeper: Keeper,
        options: AcquireOptions,
        record: Arc<ClientRecord>,
    ) -> Self {
        let locks = Locks::with(Arc::clone(&backend), keeper.clone(), Arc::new(SystemEntropy));
        let locks = locks.with_options(options.clone());
        Self { locks, backend, keeper, options, record }
    }

    /// The default options of its locks: those of [`TestEnv::options`](crate::TestEnv::options).
    #[must_use]
    pub fn options(&self) -> AcquireOptions {
        self.options.clone()
    }

    /// A mutex.
    ///
    /// # Panics
    /// If the name is bad.
    #[must_use]
    pub fn mutex(&self, name: &str) -> Lock {
        self.locks.mutex(name).expect("cases use good names")
    }

    /// A read-write lock.
    ///
    /// # Panics
    /// If the name is bad.
    #[must_use]
    pub fn rwlock(&self, name: &str) -> RwLock {
        self.locks.rwlock(name).expect("cases use good names")
    }

    /// A semaphore.
    ///
    /// # Panics
    /// If the name or the limit is bad.
    #[must_use]
    pub fn semaphore(&self, name: &str, limit: u32) -> Semaphore {
        self.locks.semaphore(name, limit).expect("cases use good names and limits")
    }

    /// An entry with a fresh id, for cases that call the backend's verbs directly.
    ///
    /// # Panics
    /// If the name is bad.
    #[must_use]
    pub fn entry(&self, name: &str, claim: Claim, ttl: Duration) -> Entry {
        let name = LockName::new(name).expect("cases use good names");
        let id = EntryId::new(SystemEntropy.bits());
        self.record.mark_by_hand(id);
        Entry::new(name, id, claim, ttl)
    }

    /// Ends the client as a crash would: nothing is renewed or cleaned up any more. Its guards and futures can be dropped afterwards,
    /// which has no effect.
    ///
    /// # Cancel safety
    /// The client ends even if the future is dropped after its first poll.
    pub async fn crash(self) {
        let (alive, ended) = tokio::sync::oneshot::channel::<()>();
        self.keeper.spawn(async move {
            // Dropped with the keeper's runtime, which is how its end is seen.
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        self.stop();
        // The answer is an error: the task that would answer is gone.
        let _ = ended.await;
    }

    /// Ends the client as [`crash`](Self::crash) does, without waiting for the keeper's current work. The backend's verbs can still be
    /// called.
    pub fn stop(&self) {
        self.record.crash();
        self.keeper.stop();
    }
}
