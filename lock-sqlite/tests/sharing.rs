//! Clients of one file in one process share its threads and open files.

#[allow(dead_code, reason = "shared with the suite")]
mod file;
#[allow(dead_code, reason = "shared with other tests")]
mod other;

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use lock_conformance::SLACK;
use lock_core::{DistributedLock, Keeper, Lock, Locks, SystemEntropy};
use lock_sqlite::{Sqlite, SqliteConfig};

use self::{file::OwnFile, other::Other};

/// Not a test by itself: the tasks of another process, in which no other tests run.
#[test]
fn other() {
    other::carry_out(async |task, path| match task {
        "alike" => connect_and_count(path, 10, |_| Duration::from_secs(2)).await,
        _ => connect_and_count(path, 2, |number| Duration::from_secs(2 + number)).await,
    });
}

async fn connect(path: &Path, keeper: &Keeper, command_timeout: Duration) -> Lock {
    let mut config = SqliteConfig::default();
    (config.path, config.command_timeout) = (Some(path.to_owned()), command_timeout);
    let backend = Arc::new(Sqlite::connect(config, keeper).await.unwrap());
    Locks::with(backend, keeper.clone(), Arc::new(SystemEntropy)).mutex("job").unwrap()
}

/// Says the counts with one client, and with all of them.
async fn connect_and_count(path: &Path, number: u64, limit: impl Fn(u64) -> Duration) {
    let keeper = Keeper::start().unwrap();
    let mut all = vec![connect(path, &keeper, limit(0)).await];
    all[0].acquire().await.unwrap().release().await.unwrap();
    other::say(format!("{} {}", threads(), descriptors()));
    for number in 1..number {
        all.push(connect(path, &keeper, limit(number)).await);
    }
    other::say(format!("{} {}", threads(), descriptors()));
    // The clients still exclude each other.
    let held = all[0].acquire().await.unwrap();
    assert!(all[1].try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    // The remaining clients do not notice.
    drop(all.remove(0));
    for lock in &all {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    drop(all);
    let started = Instant::now();
    while threads() > 0 || has_it_open(path) {
        assert!(started.elapsed() < SLACK, "{} threads are left", threads());
        std::thread::sleep(Duration::from_millis(5));
    }
    other::say("gave it back");
}

/// The number of threads of this library for files.
fn threads() -> usize {
    let names = fs::read_dir("/proc/self/task").unwrap().flatten();
    // The thread may have ended.
    let names = names.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|name| name.starts_with("distlock-sqlite")).count()
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn has_it_open(path: &Path) -> bool {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut open = open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    open.any(|open| open.starts_with(path.parent().unwrap()))
}

/// Reads the two numbers that the process says.
fn counts(other: &Other) -> (usize, usize) {
    let said = other.says();
    let (threads, descriptors) = said.split_once(' ').unwrap();
    (threads.parse().unwrap(), descriptors.parse().unwrap())
}

#[test]
fn ten_clients_of_one_file_have_what_one_has_and_give_it_back() {
    let file = OwnFile::new();
    let other = Other::start("alike", &file.path());
    let one = counts(&other);
    assert_eq!(one.0, 2, "the thread of the file, and that of the post");
    assert_eq!(counts(&other), one, "threads and descriptors of ten");
    assert_eq!(other.says(), "gave it back");
}

/// A time limit appears in errors, and the thread that waits for other processes keeps it, so it cannot be shared.
#[test]
fn clients_whose_settings_differ_share_nothing() {
    let file = OwnFile::new();
    let other = Other::start("not alike", &file.path());
    let (one, two) = (counts(&other), counts(&other));
    assert!(two.0 == 2 * one.0 && two.1 > one.1, "{one:?}, {two:?}");
    assert_eq!(other.says(), "gave it back");
}
