//! What is promised about the public types.

use std::{error::Error as StdError, fs, future::Future, path::Path, sync::Arc};

use lock_core::{
    AcquireOptions, AcquireProgress, Backend, BackendError, CloseError, DistributedLock, Error, FencingToken,
    Guard, Hold, Keeper, Lock, Locks, Lost, LostReason, Memory, Operator, RwLock, Semaphore, Sleep,
};

/// The files of `src` with the types that users of locks use.
const FOR_USERS: [&str; 18] = [
    "entry.rs",
    "error.rs",
    "error/backend_error.rs",
    "error/input_error.rs",
    "guard.rs",
    "guarantees.rs",
    "hold.rs",
    "hold_state.rs",
    "identity.rs",
    "lock.rs",
    "locks.rs",
    "lost.rs",
    "operator.rs",
    "options.rs",
    "released.rs",
    "rwlock.rs",
    "semaphore.rs",
    "token.rs",
];
/// Some of the files with the types that backends use.
const FOR_BACKENDS: [&str; 3] = ["backend.rs", "clock.rs", "keeper/handle.rs"];

fn send_sync_static<T: Send + Sync + 'static>() {}
fn error<T: StdError + Send + Sync + 'static>() {}
fn send_future<F: Future + Send>(_: F) {}
fn cloneable_static_future<F: Future<Output = LostReason> + Clone + Send + 'static>(_: F) {}

#[test]
fn what_users_hold_can_be_sent_shared_and_kept() {
    send_sync_static::<Guard>();
    send_sync_static::<Hold>();
    send_sync_static::<Locks>();
    send_sync_static::<Lock>();
    send_sync_static::<RwLock>();
    send_sync_static::<Semaphore>();
    send_sync_static::<Lock>();
    send_sync_static::<Lost>();
    send_sync_static::<Sleep>();
    send_sync_static::<Keeper>();
    send_sync_static::<AcquireOptions>();
}

#[test]
fn errors_are_errors_that_can_be_sent_and_shared() {
    error::<Error>();
    error::<BackendError>();
    error::<CloseError>();
}

#[test]
fn every_kind_of_lock_and_every_store_is_an_object() -> Result<(), Error> {
    let locks = Locks::new(Memory::new());
    let all: Vec<Arc<dyn DistributedLock>> = vec![
        Arc::new(locks.mutex("m")?),
        Arc::new(locks.rwlock("rw")?.read()),
        Arc::new(locks.rwlock("rw")?.write()),
        Arc::new(locks.semaphore("s", 3)?.permits(2)?),
    ];
    let names: Vec<_> = all.iter().map(|lock| lock.name().as_str()).collect();
    assert_eq!(names, ["m", "rw", "rw", "s"]);
    let _store: Arc<dyn Backend> = Arc::new(Memory::new());
    let _operator: &dyn Operator = locks.operator();
    Ok(())
}

/// Then helpers that work on any lock, such as `run`, take a `dyn DistributedLock` too.
#[tokio::test]
async fn references_boxes_and_arcs_of_locks_are_locks() {
    async fn token(lock: impl DistributedLock) -> FencingToken {
        lock.run(|hold| async move { hold.token() }).await.unwrap()
    }
    let lock = Locks::new(Memory::new()).mutex("m").unwrap();
    let (shared, boxed): (Arc<dyn DistributedLock>, Box<dyn DistributedLock>) =
        (Arc::new(lock.clone()), Box::new(lock.clone()));
    let tokens = [token(&lock).await, token(&*shared).await, token(shared).await, token(boxed).await];
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    assert_eq!(lock.queue().await.unwrap().len(), 0);
}

/// A pointer that did not forward it would leave the progress as it is.
#[tokio::test]
async fn an_acquisition_through_a_pointer_tells_its_progress() {
    let lock = Locks::new(Memory::new()).mutex("m").unwrap();
    let shared: Arc<dyn DistributedLock> = Arc::new(lock.clone());
    let held = lock.acquire().await.unwrap();
    let (options, progress) = (AcquireOptions::new(), AcquireProgress::new());
    assert_eq!((progress.entry(), progress.ahead()), (None, None));
    let mut acquiring = shared.acquire_observed(&options, &progress);
    assert!(futures_util::FutureExt::now_or_never(&mut acquiring).is_none());
    let queue = lock.queue().await.unwrap();
    assert_eq!((progress.entry(), progress.ahead()), (queue[1].entry, Some(1)));
    held.release().await.unwrap();
    acquiring.await.unwrap().release().await.unwrap();
}

#[test]
fn every_future_can_be_sent() -> Result<(), Error> {
    let locks = Locks::new(Memory::new());
    let mutex = locks.mutex("m")?;
    let options = AcquireOptions::new();
    send_future(mutex.acquire());
    send_future(mutex.acquire_with(&options));
    send_future(mutex.try_acquire());
    send_future(mutex.queue());
    send_future(mutex.holder());
    send_future(mutex.run(|hold| async move { hold.token() }));
    send_future(locks.close(std::time::Duration::ZERO));
    let guard = futures_util::FutureExt::now_or_never(mutex.acquire()).expect("memory answers at once")?;
    cloneable_static_future(guard.lost());
    send_future(guard.extend());
    send_future(guard.release());
    Ok(())
}

#[test]
fn a_lock_needs_no_runtime_where_it_is_taken_waited_for_and_dropped() -> Result<(), Error> {
    // A waiter without any tokio runtime: its timers and hints come from the keeper's thread.
    let locks = Locks::new(Memory::new());
    let mutex =
        locks.mutex("m")?.with_options(AcquireOptions::new().wait(std::time::Duration::from_secs(20)));
    let guard = futures_executor::block_on(mutex.acquire())?;
    let waiter =
        std::thread::spawn(move || futures_executor::block_on(mutex.acquire()).map(|guard| guard.token()));
    while futures_executor::block_on(locks.mutex("m")?.queue())?.len() < 2 {
        std::thread::yield_now();
    }
    let first = guard.token();
    drop(guard);
    assert!(waiter.join().expect("it does not panic")? > first);
    locks.close_blocking(std::time::Duration::from_secs(20)).expect("all is cleaned up");
    Ok(())
}

/// Everything public that a file of the source declares: an enum or a trait as a whole, a function without its body, a field.
fn declarations(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    let source = fs::read_to_string(&path).unwrap();
    let declared = source.match_indices("pub ").map(|(at, _)| {
        let rest = &source[at..];
        let line = rest.lines().next().unwrap_or_default();
        let end = if line.starts_with("pub enum") || line.starts_with("pub trait") {
            "\n}"
        } else if line.contains("fn ") {
            "{\n"
        } else {
            "\n"
        };
        rest.split(end).next().unwrap_or(rest).to_owned()
    });
    declared.collect()
}

/// Users get time as durations; the instants of the library's own clock are for backends.
#[test]
fn no_type_that_users_meet_shows_an_instant_of_the_clock() {
    for file in FOR_USERS {
        let declared = declarations(file);
        assert!(!declared.is_empty(), "{file}");
        let shows: Vec<_> = declared.iter().filter(|declared| declared.contains("BootTime")).collect();
        assert!(shows.is_empty(), "{file}: {shows:?}");
    }
    // Otherwise the check would not find the item in its file.
    for file in FOR_BACKENDS {
        assert!(declarations(file).iter().any(|declared| declared.contains("BootTime")), "{file}");
    }
}
