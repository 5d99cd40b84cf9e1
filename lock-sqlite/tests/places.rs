//! One file under several paths, and files without their log: no lock is ever held twice, under another path or with another log.

#[allow(dead_code, reason = "shared with the suite")]
mod file;
#[allow(dead_code, reason = "shared with other tests")]
mod other;

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use lock_conformance::{
    SLACK,
    audit::{LONG, within},
    ran_nothing,
};
use lock_core::{
    AcquireOptions, BackendError, BackendErrorKind as Kind, DistributedLock, FencingToken, Guard, Keeper,
    Lock, Locks, Operator, SystemEntropy,
};
use lock_sqlite::{ConnectError, Sqlite, SqliteConfig};

use self::{
    file::{OwnFile, config},
    other::Other,
};

fn job(path: &Path) -> Lock {
    job_with(config(path))
}

fn job_with(config: SqliteConfig) -> Lock {
    let keeper = Keeper::start().unwrap();
    let backend = Arc::new(Sqlite::new(config, &keeper).unwrap());
    let locks = Locks::with(backend, keeper, Arc::new(SystemEntropy));
    locks.with_options(AcquireOptions::new().ttl(LONG)).mutex("job").unwrap()
}

async fn refused(path: &Path) -> BackendError {
    match Sqlite::connect(config(path), &Keeper::start().unwrap()).await {
        Err(ConnectError::Store(error)) => error,
        Err(error) => panic!("another error was expected than {error}"),
        Ok(_) => panic!("it was taken"),
    }
}

/// Not a test by itself: the tasks of another process.
#[test]
fn other() {
    other::carry_out(async |task, path| match task {
        "hold" => hold(path, Duration::from_secs(6)).await,
        "hold for long" => hold(path, LONG).await,
        "do nothing" => do_nothing(path).await,
        _ => take_once(path).await,
    });
}

/// Holds the lock, and says whether it still does whenever it is asked. Extends the lease immediately if it is told to.
async fn hold(path: &Path, ttl: Duration) {
    let guard = job(path).acquire_with(&AcquireOptions::new().ttl(ttl)).await.unwrap();
    other::say(guard.token());
    loop {
        if tokio::task::block_in_place(other::listen) == "extend" {
            let _ = guard.extend().await;
        }
        other::say(guard.is_held());
    }
}

/// Has the file open, and does nothing.
async fn do_nothing(path: &Path) {
    let lock = job(path);
    lock.acquire().await.unwrap().release().await.unwrap();
    other::say("does nothing");
    tokio::task::block_in_place(other::listen);
    drop(lock);
}

/// Takes the lock when it is told to. On a busy machine, many processes that create a file are not served within the two seconds of a
/// command.
async fn take_once(path: &Path) {
    other::say("ready");
    tokio::task::block_in_place(other::listen);
    let mut patient = config(path);
    patient.command_timeout = LONG;
    let guard = job_with(patient).acquire().await.unwrap();
    other::say(guard.token());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_two_names_is_refused_and_its_holder_keeps_the_lock() {
    let file = OwnFile::new();
    let held = job(&file.path()).acquire().await.unwrap();
    let doctor = Sqlite::connect(config(&file.path()), &Keeper::start().unwrap()).await.unwrap();
    let second = file.path().with_file_name("the-same.db");
    fs::hard_link(file.path(), &second).unwrap();
    for path in [&second, &file.path()] {
        let error = refused(path).await;
        assert_eq!(*error.kind(), Kind::Unsupported, "{error}");
        assert!(error.to_string().contains("2 names"), "{error}");
    }
    let diagnosis = doctor.diagnose().await.unwrap();
    assert!(diagnosis.problems.iter().any(|problem| problem.contains("2 names")), "{diagnosis:?}");
    held.extend().await.unwrap();
    fs::remove_file(&second).unwrap();
    assert!(job(&file.path()).try_acquire().await.unwrap().is_none());
    held.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_mounted_by_itself_is_refused() {
    let file = OwnFile::new();
    let held = job(&file.path()).acquire().await.unwrap();
    let second = file.path().with_file_name("mounted.db");
    fs::write(&second, "").unwrap();
    // In a mount namespace that ends with the script.
    let script = "mount --bind \"$1\" \"$2\" || exit 77; \"$3\" on_a_mounted_file --exact --nocapture";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .args([&file.path(), &second, &std::env::current_exe().unwrap()])
        .env("DISTLOCK_FILE", &second)
        .env("DISTLOCK_OTHER", "on_a_mounted_file")
        .output();
    let Some(output) = output.ok().filter(|output| matches!(output.status.code(), Some(0 | 101))) else {
        return ran_nothing("a_file_that_is_mounted_by_itself_is_refused", "nothing can be mounted here");
    };
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("1 passed"), "{said}");
    held.release().await.unwrap();
}

/// Not a test by itself: [`a_file_that_is_mounted_by_itself_is_refused`] runs it where the file is mounted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_mounted_file() {
    if std::env::var("DISTLOCK_OTHER").as_deref() != Ok("on_a_mounted_file") {
        return ran_nothing("on_a_mounted_file", "it is a part of another test");
    }
    let error = refused(Path::new(&std::env::var("DISTLOCK_FILE").unwrap())).await;
    assert_eq!(*error.kind(), Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("mount its folder"), "{error}");
}

/// So processes with the other path see the death of a process, and get its messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_to_a_file_leads_to_the_same_processes() {
    let file = OwnFile::new();
    let link = file.path().with_file_name("link.db");
    symlink("locks.db", &link).unwrap();
    for path in [&link, &file.path()] {
        let held = job(path).acquire().await.unwrap();
        assert!(job(&file.path()).try_acquire().await.unwrap().is_none());
        assert!(job(&link).try_acquire().await.unwrap().is_none());
        held.release().await.unwrap();
    }
    assert!(!link.with_file_name("link.db-processes").exists(), "each path has processes of its own");
}

/// Tries until the lock is taken, or is reported as held. The former holder learns of it.
async fn take_from(holder: &mut Other, path: &Path) -> Option<Guard> {
    let (lock, started) = (job(path), Instant::now());
    loop {
        match lock.try_acquire().await {
            Ok(Some(guard)) => {
                until_lost(holder).await;
                return Some(guard);
            }
            Ok(None) => return None,
            Err(error) => assert!(error.is_transient(), "{error:?}"),
        }
        assert!(started.elapsed() < SLACK, "the holder has not noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn until_lost(holder: &mut Other) {
    let started = Instant::now();
    loop {
        holder.tell("well?");
        if holder.says() == "false" {
            return;
        }
        assert!(started.elapsed() < SLACK, "it still takes itself for the holder");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A second log in addition to the one in use would grant the same lock, with the same token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_log_or_shared_memory_is_begun_anew_once_its_users_noticed() {
    for lost in [&["-wal", "-shm"][..], &["-wal"], &["-shm"]] {
        let file = OwnFile::new();
        let mut holder = Other::start("hold", &file.path());
        let token: FencingToken = holder.says().parse().unwrap();
        for suffix in lost {
            fs::remove_file(file.beside(suffix)).unwrap();
        }
        // If the machine paused, its lease may have ended.
        if let Some(next) = take_from(&mut holder, &file.path()).await {
            assert!(next.token() > token, "{} after {token}", next.token());
            next.release().await.unwrap();
        }
    }
}

/// Under its new path, the file has another log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_file_is_used_under_its_new_path_once_its_holders_noticed() {
    let file = OwnFile::new();
    let mut holder = Other::start("hold", &file.path());
    let token: FencingToken = holder.says().parse().unwrap();
    let moved = file.path().with_file_name("moved.db");
    fs::rename(file.path(), &moved).unwrap();
    let next = take_from(&mut holder, &moved).await.expect("its holder has lost it");
    assert!(next.token() > token, "{} after {token}", next.token());
    next.release().await.unwrap();
}

/// PR32: the content of the old log does not become a part of the new file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_deleted_without_its_log_is_made_anew_with_nothing_of_it_left() {
    let file = OwnFile::new();
    let mut holder = Other::start("hold", &file.path());
    let token: FencingToken = holder.says().parse().unwrap();
    fs::remove_file(file.path()).unwrap();
    let next = job(&file.path()).try_acquire().await.unwrap().expect("nobody holds it in the new file");
    assert!(next.token() > token, "{} after {token}", next.token());
    let whole: String = file.open().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    until_lost(&mut holder).await;
    next.release().await.unwrap().confirmed().unwrap();
}

/// No other process can begin a log while that process has the old one open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_process_notices_too_that_the_log_was_deleted() {
    let file = OwnFile::new();
    let idle = Other::start("do nothing", &file.path());
    assert_eq!(idle.says(), "does nothing");
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(file.beside(suffix)).unwrap();
    }
    let (lock, started) = (job(&file.path()), Instant::now());
    while let Err(error) = lock.try_acquire().await {
        assert!(error.is_transient(), "{error:?}");
        assert!(started.elapsed() < SLACK, "he keeps it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// It closes what it has open before it looks whether anybody has: else it would wait for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_log_was_deleted_begins_another_in_the_same_command() {
    let file = OwnFile::new();
    let lock = job(&file.path());
    let held = lock.acquire().await.unwrap();
    let token = held.token();
    held.release().await.unwrap();
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(file.beside(suffix)).unwrap();
    }
    let next = lock.try_acquire().await.unwrap().expect("nobody holds it");
    assert!(next.token() > token, "{} after {token}", next.token());
}

/// A process whose lock file was deleted creates another one, and takes over its own entries with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_death_of_a_holder_is_seen_although_its_folder_was_deleted() {
    let file = OwnFile::new();
    let mut holder = Other::start("hold for long", &file.path());
    holder.says();
    fs::remove_dir_all(file.processes()).unwrap();
    holder.tell("extend");
    assert_eq!(holder.says(), "true");
    let lock = job(&file.path());
    assert!(lock.try_acquire().await.unwrap().is_none(), "it was lost with the folder");
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    while lock.queue().await.unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    holder.kill();
    within("the lock of whoever was killed", SLACK, waiter).await.unwrap().release().await.unwrap();
}

/// The log and the shared memory come with the first process, and go with the last one: no process ever takes that for damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_open_and_leave_a_new_file_at_once_are_all_served() {
    const PROCESSES: usize = 8;
    for _ in 0..3 {
        let file = OwnFile::new();
        let mut others: Vec<Other> =
            (0..PROCESSES).map(|_| Other::start("take once", &file.path())).collect();
        for other in &others {
            assert_eq!(other.says(), "ready");
        }
        for other in &mut others {
            other.tell("go");
        }
        let mut tokens: Vec<FencingToken> =
            others.iter().map(|other| other.says().parse().unwrap()).collect();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), PROCESSES, "a token came twice");
    }
}
