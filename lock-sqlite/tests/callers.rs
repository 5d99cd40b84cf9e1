//! Verbs run on the threads of their callers without blocking them: other writers do not block a caller, and a caller does not block other
//! tasks. And the log does not grow with what callers write.

#[allow(dead_code, reason = "shared with the suite")]
mod file;

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use lock_conformance::{SLACK, ServerControl};
use lock_core::{DistributedLock, Keeper, Lock, Locks, SystemEntropy};
use lock_sqlite::{Sqlite, SqliteConfig};

use self::file::OwnFile;

/// A lock whose backend knows the keeper's thread, because the keeper has run a task of the backend.
async fn job(file: &OwnFile) -> Lock {
    let keeper = Keeper::start().unwrap();
    let mut config = SqliteConfig::default();
    (config.path, config.command_timeout) = (Some(file.path()), Duration::from_secs(30));
    let backend = Arc::new(Sqlite::connect(config, &keeper).await.unwrap());
    let lock = Locks::with(backend, keeper, Arc::new(SystemEntropy)).mutex("job").unwrap();
    // The first verb runs on the worker, because it creates the files.
    for _ in 0..100 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    lock
}

#[tokio::test]
async fn a_free_lock_is_taken_and_released_without_waiting_for_a_thread() {
    let file = OwnFile::new();
    let lock = job(&file).await;
    let started = Instant::now();
    let mut at_once = 0;
    while at_once < 20 {
        assert!(started.elapsed() < SLACK, "{at_once} times");
        // Now and then the worker does it: during a checkpoint, or because this thread was not scheduled.
        let Some(guard) = lock.acquire().now_or_never() else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        at_once += u32::from(guard.unwrap().release().now_or_never().is_some());
    }
}

/// The poll returns while the other writer is still in its transaction, which ends only after the poll.
#[tokio::test]
async fn a_caller_is_not_blocked_by_other_writers() {
    let file = OwnFile::new();
    let lock = job(&file).await;
    file.pause().await.unwrap();
    let mut asked = lock.acquire();
    assert!((&mut asked).now_or_never().is_none(), "it was answered while nobody could write");
    file.resume().await.unwrap();
    asked.await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_task_that_never_waits_lets_others_have_their_turn() {
    const PAIRS: u32 = 2000;
    let file = OwnFile::new();
    let lock = job(&file).await;
    let turns = Arc::new(AtomicU32::new(0));
    let other = tokio::spawn({
        let turns = Arc::clone(&turns);
        async move {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        }
    });
    for _ in 0..PAIRS {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    other.abort();
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns >= PAIRS / 16, "{turns} turns of another task in {PAIRS} pairs");
}

#[tokio::test]
async fn the_log_does_not_grow_with_what_is_written() {
    let file = OwnFile::new();
    let lock = job(&file).await;
    for _ in 0..3000 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let log = fs::metadata(file.path().with_file_name("locks.db-wal")).unwrap().len();
    assert!(log < 16 << 20, "{log} bytes, for three pages for each pair");
}
