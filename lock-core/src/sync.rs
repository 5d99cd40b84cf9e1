//! [`Mutex`] and [`Condvar`] of the standard library, without poison.
//!
//! No code panics in the middle of a change under these locks, so poison would not tell anything.
//!
//! The locks of `parking_lot` are not used, because a process may fork. All locks of `parking_lot` share one table of waiting threads. A
//! fork has a copy of it, with threads that do not exist in the fork and with buckets that may stay locked forever. As soon as two threads
//! of the fork want the same lock, however new, it may [hang or crash](https://github.com/Amanieu/parking_lot/issues/515). Locks of the
//! standard library share nothing, so a lock that a thread of the parent held cannot block the new connection of a fork.
//!
//! ```
//! use lock_core::sync::Mutex;
//!
//! let count = Mutex::new(1);
//! *count.lock() += 1;
//! assert_eq!(count.into_inner(), 2);
//! ```

pub use std::sync::MutexGuard;
use std::{
    fmt,
    sync::{PoisonError, TryLockError},
    time::Duration,
};

/// A mutex that a panic does not poison.
#[derive(Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits until it is unlocked, and locks it until the guard is dropped. Other threads that lock it are blocked
    /// meanwhile: do nothing that takes long, and do not await.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks it if it is unlocked now.
    #[must_use = "the mutex is unlocked when the guard is dropped"]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value. It cannot be locked meanwhile.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A condition variable for a [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// A condition variable without waiting threads.
    #[must_use]
    pub const fn new() -> Self {
        Self(std::sync::Condvar::new())
    }

    /// Unlocks the mutex, waits for a notification, and locks it again. It may return without one: check the condition in a loop.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, for `limit` at the most. The time that the machine sleeps may not count.
    pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Notifies one of the threads that wait.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Notifies all threads that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    #[test]
    fn a_mutex_and_those_who_wait_for_it_go_on_after_a_panic() {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let waiting = Arc::clone(&shared);
        let waiter = thread::spawn(move || {
            let (count, changed) = &*waiting;
            let mut guard = count.lock();
            while *guard == 0 {
                guard = changed.wait(guard);
            }
            *guard
        });
        let panicking = Arc::clone(&shared);
        let panicked = thread::spawn(move || {
            let mut guard = panicking.0.lock();
            *guard += 1;
            panicking.1.notify_all();
            assert_eq!(*guard, 0, "it panics while it is locked");
        });
        assert!(panicked.join().is_err());
        assert_eq!(waiter.join().unwrap(), 1);
        let (count, changed) = &*shared;
        let locked = count.try_lock().unwrap();
        assert!(count.try_lock().is_none());
        drop(locked);
        assert_eq!(*changed.wait_for(count.lock(), Duration::from_millis(1)), 1);
    }
}
