//! What happens to locks when processes die, stop, or leave children behind; and very many processes.

#[allow(dead_code, reason = "shared with the suite")]
mod file;
#[allow(dead_code, reason = "shared with other tests")]
mod other;

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use lock_conformance::{
    SLACK,
    audit::{LONG, eventually, within},
};
use lock_core::{AcquireOptions, DistributedLock, FencingToken, Keeper, Lock, Locks, SystemEntropy};
use lock_sqlite::Sqlite;
use rustix::io::{FdFlags, fcntl_setfd};

use self::{
    file::{OwnFile, config},
    other::{Other, PATIENCE, listen, say, send},
};

/// The mutex `job` of a new client. Its command timeout is long, because on a busy machine a thousand at once are not served within the
/// two seconds that a command has by default.
fn job(path: &Path) -> Lock {
    let keeper = Keeper::start().unwrap();
    let mut config = config(path);
    config.command_timeout += LONG;
    let backend = std::sync::Arc::new(Sqlite::new(config, &keeper).unwrap());
    let locks = Locks::with(backend, keeper, std::sync::Arc::new(SystemEntropy));
    locks.with_options(AcquireOptions::new().ttl(LONG)).mutex("job").unwrap()
}

/// Not a test by itself: the tasks of a process that [`Other::start`] has started.
#[test]
fn other() {
    other::carry_out(async |task, path| match task {
        "hold" => hold(path, LONG).await,
        "hold briefly" => hold(path, Duration::from_secs(3)).await,
        "wait" => say(job(path).acquire().await.unwrap().token()),
        "hold with a child" => hold_with_a_child(path).await,
        "write" => write(path),
        _ => crowd(path).await,
    });
}

async fn hold(path: &Path, ttl: Duration) {
    let guard = job(path).acquire_with(&AcquireOptions::new().ttl(ttl)).await.unwrap();
    say(guard.token());
    loop {
        tokio::task::block_in_place(listen);
        say(guard.is_held());
    }
}

/// Holds the lock with a child that has the file of this process open, and outlives it.
async fn hold_with_a_child(path: &Path) {
    let keeper = Keeper::start().unwrap();
    let backend = std::sync::Arc::new(file::client(path, &keeper));
    let file = backend.process_file().await.unwrap();
    fcntl_setfd(&file, FdFlags::empty()).unwrap();
    let locks = Locks::with(backend, keeper, std::sync::Arc::new(SystemEntropy));
    let guard = locks.mutex("job").unwrap().acquire_with(&AcquireOptions::new().ttl(LONG)).await.unwrap();
    let mut child =
        Command::new("sleep").arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    say(child.id());
    tokio::task::block_in_place(listen);
    child.kill().unwrap();
    child.wait().unwrap();
    drop((guard, file));
}

/// Begins a write transaction, and does not end it.
fn write(path: &Path) {
    let writer = rusqlite::Connection::open(path).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    say("writes");
    listen();
}

/// A hundred waiters; each notes its turn in a file while it holds the lock.
async fn crowd(path: &Path) {
    let (lock, turns) = (job(path), path.with_file_name("turns"));
    let waiters: Vec<_> = (0..CROWD / PROCESSES)
        .map(|_| {
            let (lock, turns) = (lock.clone(), turns.clone());
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                let mut turns = fs::OpenOptions::new().append(true).open(turns).unwrap();
                turns.write_all(format!("{}\n", guard.token()).as_bytes()).unwrap();
                guard.release().await.unwrap();
            })
        })
        .collect();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    say("served");
}

const CROWD: usize = 1000;
const PROCESSES: usize = 10;

/// PR32: a client that slept while the file was voided has to be registered again, because otherwise no process would notice its death.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_voided_file_joins_again_before_it_holds_anything() {
    let file = OwnFile::new();
    let lock = job(&file.path());
    lock.acquire().await.unwrap().release().await.unwrap();
    let voided =
        "DELETE FROM entries; DELETE FROM members; UPDATE meta SET epoch = epoch - 1, token = ceiling";
    file.open().execute_batch(voided).unwrap();
    let held = lock.acquire().await.unwrap();
    let known = "SELECT count(*) FROM entries JOIN members ON entries.member = members.id";
    assert_eq!(file.open().query_row(known, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_was_killed_is_replaced_at_once_and_not_when_its_ttl_ends() {
    let file = OwnFile::new();
    for _ in 0..3 {
        let holder = Other::start("hold", &file.path());
        let token: FencingToken = holder.says().parse().unwrap();
        let lock = job(&file.path());
        let waiter = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap() }
        });
        let stands = || async { lock.queue().await.unwrap().len() >= 2 };
        eventually("the waiter in the queue", SLACK, stands).await;
        let killed = Instant::now();
        holder.kill();
        // The figure is in lock-bench; this is the limit on a busy machine.
        let guard = within("the lock of a holder that was killed", SLACK, waiter).await.unwrap();
        println!("replaced after {:?}", killed.elapsed());
        assert!(guard.token() > token);
        guard.release().await.unwrap();
    }
}

/// The processes that look often are among the dead, so the processes behind have to look, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_takes_over_when_the_holder_and_all_ahead_are_killed() {
    let file = OwnFile::new();
    let lock = job(&file.path());
    let mut ahead = vec![Other::start("hold", &file.path())];
    let token: FencingToken = ahead[0].says().parse().unwrap();
    let stand = async |number: usize| {
        let all = || async { lock.queue().await.unwrap().len() >= number };
        eventually("one more in the queue", SLACK, all).await;
    };
    for _ in 0..4 {
        ahead.push(Other::start("wait", &file.path()));
        stand(ahead.len()).await;
    }
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    stand(ahead.len() + 1).await;
    // By then, it looks at its lowest rate.
    tokio::time::sleep(Duration::from_secs(3)).await;
    // The processes in between first, so that none of them takes the lock.
    ahead[1..].iter().for_each(|other| other.signal("KILL"));
    ahead[0].signal("KILL");
    let killed = Instant::now();
    let guard = within("the lock of a queue of which only the last lives", SLACK, waiter).await.unwrap();
    println!("replaced after {:?}", killed.elapsed());
    assert!(guard.token() > token);
    guard.release().await.unwrap();
}

/// PR34: no waiter was there to notice the death.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_right_after_the_death_of_the_holder_gets_the_lock() {
    let file = OwnFile::new();
    for _ in 0..3 {
        let holder = Other::start("hold", &file.path());
        holder.says();
        let lock = job(&file.path());
        assert!(lock.try_acquire().await.unwrap().is_none());
        holder.kill();
        let guard = lock.try_acquire().await.unwrap().expect("its holder is dead");
        guard.release().await.unwrap();
    }
    // The files of the dead processes are removed as well.
    let lock = job(&file.path());
    lock.queue().await.unwrap();
    let left = fs::read_dir(file.processes()).unwrap().count();
    assert!(left <= 2 * 4, "{left} files of processes, of which most are dead");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_holder_keeps_its_lock_until_its_ttl_ends() {
    let file = OwnFile::new();
    let mut holder = Other::start("hold briefly", &file.path());
    holder.says();
    let lock = job(&file.path());
    holder.signal("STOP");
    let asked = Instant::now();
    let left = lock.queue().await.unwrap()[0].lease_left.unwrap();
    let guard = within("the end of its ttl", left + SLACK, lock.acquire()).await.unwrap();
    assert!(asked.elapsed() >= left, "after {:?}, of a lease that had {left:?}", asked.elapsed());
    holder.signal("CONT");
    holder.tell("well?");
    assert_eq!(holder.says(), "false", "it took itself for the holder");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_writer_is_named_and_costs_a_release_one_time_limit() {
    let limit = Duration::from_secs(6);
    let file = OwnFile::new();
    let keeper = Keeper::start().unwrap();
    let mut config = config(&file.path());
    config.command_timeout = limit;
    let backend = std::sync::Arc::new(Sqlite::new(config, &keeper).unwrap());
    let locks = Locks::with(backend, keeper, std::sync::Arc::new(SystemEntropy));
    let held = locks.mutex("job").unwrap().acquire_with(&AcquireOptions::new().ttl(LONG)).await.unwrap();
    let writer = Other::start("write", &file.path());
    assert_eq!(writer.says(), "writes");
    writer.signal("STOP");
    let asked = Instant::now();
    let released = held.release().await.unwrap();
    let took = asked.elapsed();
    assert!(took < limit * 3 / 2, "{took:?}, with a limit of {limit:?}");
    let (pid, why) = (writer.child.id(), released.confirmed().unwrap_err().to_string());
    assert!(why.contains(&format!("process {pid} (")) && why.contains("is stopped"), "{why}");
}

/// PR34: the descendants of a killed supervisor still do the work that the lock protects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_stays_held_as_long_as_a_child_has_the_file_of_its_holder() {
    let file = OwnFile::new();
    let holder = Other::start("hold with a child", &file.path());
    let child = holder.says();
    let lock = job(&file.path());
    holder.kill();
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiter.is_finished(), "granted although a child of the holder lives");
    send("KILL", &child);
    within("the lock of whom nobody is left", SLACK, waiter).await.unwrap().release().await.unwrap();
}

/// Very many waiters keep the machine busy, so this test runs when no other does.
mod alone {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_thousand_waiters_in_ten_processes_are_served_in_order() {
        let file = OwnFile::new();
        let turns = file.path().with_file_name("turns");
        fs::write(&turns, "").unwrap();
        let lock = job(&file.path());
        let held = lock.acquire().await.unwrap();
        let others: Vec<Other> = (0..PROCESSES).map(|_| Other::start("crowd", &file.path())).collect();
        let started = Instant::now();
        while lock.queue().await.unwrap().len() < 1 + CROWD {
            assert!(started.elapsed() < PATIENCE, "not all have come");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let queue: Vec<FencingToken> =
            lock.queue().await.unwrap().iter().filter_map(|row| row.token).collect();
        let started = Instant::now();
        held.release().await.unwrap();
        for other in &others {
            assert_eq!(other.says(), "served");
        }
        println!("{CROWD} waiters served in {:?}", started.elapsed());
        let text = fs::read_to_string(turns).unwrap();
        let served: Vec<FencingToken> = text.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(served, queue[1..], "not in the order of the queue");
    }
}
