//! Steps that many cases share.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::Duration,
};

use lock_core::{
    AcquireOptions, BackendError, Creates, Departure, DistributedLock, Entry, Error, Guard, Lock, QueueRow,
    Released,
};

pub(super) use crate::audit::LONG;
use crate::{
    Client, ScriptedFaults, TestEnv,
    audit::{SLACK, eventually, safety, soon},
};

/// Options with a ttl of [`LONG`] and no bound for waiting.
pub(super) fn long() -> AcquireOptions {
    AcquireOptions::new().ttl(LONG)
}

/// Options with a ttl that a case can wait for, and that a busy machine renews in time.
pub(super) fn brief() -> AcquireOptions {
    AcquireOptions::new().ttl(Duration::from_millis(1200))
}

/// Options with a ttl that a case can wait for, and that is renewed in time even if every step of a renewal waits for a core. They are for
/// locks that a case holds for longer than the ttl.
pub(super) fn lasting() -> AcquireOptions {
    AcquireOptions::new().ttl(Duration::from_secs(3))
}

/// A mutex with a ttl of [`LONG`].
pub(super) fn mutex(client: &Client, name: &str) -> Lock {
    client.mutex(name).with_options(long())
}

/// A reader with a ttl of [`LONG`].
pub(super) fn reader(client: &Client, name: &str) -> Lock {
    client.rwlock(name).read().with_options(long())
}

/// A writer with a ttl of [`LONG`].
pub(super) fn writer(client: &Client, name: &str) -> Lock {
    client.rwlock(name).write().with_options(long())
}

/// A portion of a semaphore, with a ttl of [`LONG`].
pub(super) fn permits(client: &Client, name: &str, permits: u32, limit: u32) -> Lock {
    client.semaphore(name, limit).permits(permits).unwrap().with_options(long())
}

/// Acquires a lock that becomes free soon.
pub(super) async fn take(lock: &dyn DistributedLock) -> Guard {
    soon("the grant", lock.acquire()).await.unwrap()
}

/// Acquires a lock that becomes free soon. On a busy machine, a grant may take longer than a short ttl: then it is tried again.
pub(super) async fn take_in_time(
    lock: &dyn DistributedLock,
    options: &AcquireOptions,
) -> Result<Guard, Error> {
    soon("a grant within its ttl", async {
        loop {
            match lock.acquire_with(options).await {
                Err(Error::TooSlow { .. }) => {}
                answer => return answer,
            }
        }
    })
    .await
}

/// Takes a lock that is free.
pub(super) async fn take_free(lock: &dyn DistributedLock) -> Guard {
    lock.try_acquire().await.unwrap().expect("the lock is free")
}

/// Whether a lock is taken, or waited for.
pub(super) async fn is_busy(lock: &dyn DistributedLock) -> bool {
    lock.try_acquire().await.unwrap().is_none()
}

/// Checks that a lock is held, and refused to others. The former is about timing, the latter about safety.
pub(super) async fn assert_held_alone(guard: &Guard, others: &dyn DistributedLock) {
    let busy = is_busy(others).await;
    let held = guard.is_held();
    safety(busy || !held, "granted to others while it is held");
    assert!(held, "lost: {:?}", guard.state());
}

/// The queue as it is now.
pub(super) async fn queue(lock: &dyn DistributedLock) -> Vec<QueueRow> {
    lock.queue().await.unwrap()
}

/// Waits until `len` entries are in the queue, holders included, and returns them.
pub(super) async fn queue_of(len: usize, lock: &dyn DistributedLock) -> Vec<QueueRow> {
    soon(&format!("{len} entries in the queue of `{}`", lock.name()), async {
        loop {
            let rows = queue(lock).await;
            if rows.len() == len {
                return rows;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

/// Waits until the queue is empty, and checks that the lock can be taken then.
pub(super) async fn freed(lock: &dyn DistributedLock) {
    queue_of(0, lock).await;
    // A request of an attempt that was dropped may still have been in flight: then the keeper removes its entry.
    let free = soon("a free lock", async {
        loop {
            if let Some(guard) = lock.try_acquire().await.unwrap() {
                return guard;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    free.await.release().await.unwrap();
}

/// Leaves until the store reports that there is no such entry. If the backend had to send a leave twice, because the first one was not
/// answered in time, the result may be `Left` although there was no entry (PR10).
pub(super) async fn absent(client: &Client, entry: &Entry, creates: Creates) {
    eventually("an entry that is not there", SLACK, async || {
        client.backend.leave(entry, creates).await.unwrap() == Departure::Absent
    })
    .await;
}

/// The parts of a release that the store did not confirm: the longest time until the lock is free, and the cause.
pub(super) fn pending(released: Result<Released, Error>) -> (Option<Duration>, BackendError) {
    match released {
        Ok(Released::Pending { free_within, cause, .. }) => (free_within, cause),
        other => panic!("it is not pending: {other:?}"),
    }
}

/// Checks that a release came too late.
pub(super) fn assert_lost(released: Result<Released, Error>) {
    match released {
        Err(error @ Error::Lost { .. }) => assert!(!error.is_transient(), "{error}"),
        other => panic!("it was not lost before: {other:?}"),
    }
}

/// The error of an operation that must fail.
pub(super) fn refused<T>(result: Result<T, Error>) -> Error {
    match result {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error,
    }
}

/// Runs work that may block on a separate thread without a runtime. If it panics there, so does the caller.
pub(super) async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // If the case has failed meanwhile, no task receives the result.
        let _ = done.send(catch_unwind(AssertUnwindSafe(work)));
    });
    let result = result.await.expect("the thread sends its result");
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// A client with a [`ScriptedFaults`] layer.
pub(super) async fn faulty(env: &TestEnv) -> (Client, ScriptedFaults) {
    let faults = ScriptedFaults::default();
    (env.client_through(&[Arc::new(faults.clone())]).await, faults)
}
