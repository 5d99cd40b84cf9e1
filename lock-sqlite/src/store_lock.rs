//! [`StoreLock`]: the store, for one thread at a time.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use crate::{notify::notifier::Notifier, store::Store};

/// A store, and the number of tasks and threads that wait for it.
#[derive(Debug)]
pub(crate) struct StoreLock {
    notifier: Notifier,
    store: Mutex<Store>,
    /// The number of tasks that the worker has not done yet, and of threads that wait for the store. While there are any, no caller passes
    /// them: requests of one process are carried out in order (PR08), and callers that always find the store free would starve a thread that
    /// has to wake up first.
    queued: AtomicUsize,
}

impl StoreLock {
    pub(crate) fn new(store: Store) -> Self {
        Self { notifier: store.notifier.clone(), store: Mutex::new(store), queued: AtomicUsize::new(0) }
    }

    /// Runs `work` on the store if the store is free and nothing waits for it. Messages are sent when the store is free again.
    pub(crate) fn try_with<T>(&self, work: impl FnOnce(&mut Store) -> T) -> Option<T> {
        // Also None after a panic, from which the worker recovers.
        let mut store = self.store.try_lock().ok()?;
        if self.queued() > 0 {
            return None;
        }
        let done = work(&mut store);
        let outbox = store.take_outbox();
        drop(store);
        outbox.send(&self.notifier);
        Some(done)
    }

    /// Waits for the store, and runs `work` on it. Messages are sent when the store is free again.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
        let queued = self.enqueue();
        let mut store = self.lock();
        let done = work(&mut store);
        let outbox = store.take_outbox();
        drop(store);
        drop(queued);
        outbox.send(&self.notifier);
        done
    }

    /// How many tasks and threads wait for the store, or have it.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Acquire)
    }

    /// Counts one more that waits, until [`remove_queued`](Self::remove_queued).
    pub(crate) fn add_queued(&self) {
        self.queued.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn remove_queued(&self) {
        self.queued.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts one more that waits, until the returned value is dropped.
    pub(crate) fn enqueue(&self) -> Queued<'_> {
        self.add_queued();
        Queued(self)
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(|poisoned: PoisonError<MutexGuard<'_, Store>>| {
            // After a panic, which may have been in a transaction. Closing the connection rolls the transaction back.
            self.store.clear_poison();
            let mut store = poisoned.into_inner();
            store.database = None;
            store
        })
    }
}

/// A thread that waits for the store, or has it.
#[derive(Debug)]
pub(crate) struct Queued<'a>(&'a StoreLock);

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.remove_queued();
    }
}
