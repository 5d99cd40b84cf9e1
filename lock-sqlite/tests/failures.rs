//! Files that are busy, full, read-only, damaged, replaced, foreign, of another version or of another boot: each gives an error that says
//! what is wrong, and nothing is lost.

mod disk;
#[allow(dead_code, reason = "shared with the suite")]
mod file;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use lock_conformance::{
    SLACK, ServerControl,
    audit::{LONG, within},
    ran_nothing,
};
use lock_core::{
    AcquireOptions, BackendError, BackendErrorKind as Kind, DistributedLock, Error, FencingToken, Keeper,
    Lock, Locks, LostReason, SystemEntropy,
};
use lock_sqlite::{ConnectError, Sqlite, SqliteConfig};

use rustix::fs::{CWD, Mode, mkfifoat};

use self::{
    disk::{A_PART, again, flag, here, on_a_bad_disk, waits},
    file::{OwnFile, config},
};

/// Locks of a client of its own.
fn locks(config: SqliteConfig) -> Locks {
    let keeper = Keeper::start().unwrap();
    let backend = Arc::new(Sqlite::new(config, &keeper).unwrap());
    Locks::with(backend, keeper, Arc::new(SystemEntropy)).with_options(AcquireOptions::new().ttl(LONG))
}

fn job(path: &Path) -> Lock {
    locks(config(path)).mutex("job").unwrap()
}

async fn refused(path: &Path) -> BackendError {
    match Sqlite::connect(config(path), &Keeper::start().unwrap()).await {
        Err(ConnectError::Store(error)) => error,
        Err(error) => panic!("another error was expected than {error}"),
        Ok(_) => panic!("it was taken"),
    }
}

fn kind(error: &Error) -> Kind {
    let Error::Backend { source, .. } = error else { panic!("{error}") };
    source.kind().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_never_free_to_write_times_out_and_nothing_is_lost() {
    let file = OwnFile::new();
    let held = job(&file.path()).acquire().await.unwrap();
    let mut impatient = config(&file.path());
    impatient.command_timeout = Duration::from_secs(1);
    let other = locks(impatient).mutex("other").unwrap();
    other.acquire().await.unwrap().release().await.unwrap();
    file.pause().await.unwrap();
    let asked = Instant::now();
    let error = other.acquire().await.unwrap_err();
    assert_eq!(kind(&error), Kind::TimedOut, "{error}");
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.is_transient() && why.contains("this process writes to it now"), "{why}");
    assert!(asked.elapsed() < SLACK, "after {:?}", asked.elapsed());
    file.resume().await.unwrap();
    other.acquire().await.unwrap().release().await.unwrap();
    held.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_database_of_locks_is_refused_and_left_as_it_is() {
    let text = b"a text of somebody, which is longer than the head of a database. ".repeat(100);
    let file = OwnFile::new();
    fs::write(file.path(), &text).unwrap();
    let error = refused(&file.path()).await;
    assert_eq!(*error.kind(), Kind::Protocol, "{error}");
    assert_eq!(fs::read(file.path()).unwrap(), text);

    let file = OwnFile::new();
    file.open().execute_batch("CREATE TABLE theirs (a); INSERT INTO theirs VALUES (7)").unwrap();
    let before = fs::read(file.path()).unwrap();
    let error = refused(&file.path()).await;
    assert_eq!(*error.kind(), Kind::Protocol, "{error}");
    assert!(error.to_string().contains("give locks a file of their own"), "{error}");
    assert_eq!(fs::read(file.path()).unwrap(), before, "it was changed");
    assert!(!file.processes().exists(), "a folder was made beside a file of another program");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_an_error_and_left_as_it_is() {
    let file = OwnFile::new();
    {
        let lock = job(&file.path());
        let held = lock.acquire().await.unwrap();
        held.release().await.unwrap();
    }
    gone(&file).await;
    let mut bytes = fs::read(file.path()).unwrap();
    // The header stays intact, and every page after it is damaged.
    bytes[4096..].fill(0x5a);
    fs::write(file.path(), &bytes).unwrap();
    let error = refused(&file.path()).await;
    assert_eq!(*error.kind(), Kind::Protocol, "{error}");
    assert!(error.to_string().contains("damaged"), "{error}");
    assert_eq!(fs::read(file.path()).unwrap(), bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_format_is_refused_and_left_as_it_is() {
    let file = OwnFile::new();
    job(&file.path()).acquire().await.unwrap().release().await.unwrap();
    gone(&file).await;
    file.open().pragma_update(None, "user_version", 2).unwrap();
    let error = refused(&file.path()).await;
    assert_eq!(*error.kind(), Kind::Unsupported, "{error}");
    let explained = error.explained().to_string();
    assert!(explained.contains("its format is 2"), "{explained}");
    assert!(explained.ends_with("; use the same version in all processes)"), "{explained}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_not_there_is_an_error_that_names_it() {
    let file = OwnFile::new();
    let folder = file.path().with_file_name("none");
    let error = refused(&folder.join("locks.db")).await;
    assert_eq!(*error.kind(), Kind::Unreachable, "{error}");
    let said = format!("there is no folder {}; make it, or name a file elsewhere", folder.display());
    let explained = error.explained().to_string();
    assert_eq!(explained, format!("the store cannot be reached (sqlite: {said})"));
}

/// PR32: a new file in place of a deleted one has other locks. The holder in the old one learns of it soon.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_in_a_file_that_was_replaced_learns_that_it_holds_nothing() {
    let file = OwnFile::new();
    let lock = job(&file.path());
    let held = lock.acquire_with(&AcquireOptions::new().ttl(Duration::from_secs(9))).await.unwrap();
    file.remove();
    let next = job(&file.path()).try_acquire().await.unwrap().expect("nobody holds it in the new file");
    assert!(next.token() > held.token(), "{} after {}", next.token(), held.token());
    assert_eq!(within("the loss", Duration::from_secs(3) + SLACK, held.lost()).await, LostReason::Gone);
    assert!(next.is_held());
    assert_eq!(lock.queue().await.unwrap().len(), 1);
}

/// PR32, PR33.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_boot_voids_every_lease_and_no_token_comes_twice() {
    let file = OwnFile::new();
    let token = {
        let held = job(&file.path()).acquire().await.unwrap();
        let token = held.token();
        // As if the machine had been switched off: the lock is not released.
        std::mem::forget(held);
        token
    };
    let ceiling: i64 = file.open().query_row("SELECT ceiling FROM meta", [], |row| row.get(0)).unwrap();
    assert!(ceiling.unsigned_abs() > token.get(), "the disk does not know of token {token}");
    let other = OwnFile::new();
    copy(&file, &other);
    other.open().execute("UPDATE meta SET domain = 'another boot'", []).unwrap();
    let next = job(&other.path()).try_acquire().await.unwrap().expect("no lease outlives a boot");
    assert!(next.token().get() > ceiling.unsigned_abs(), "{} may have been minted before", next.token());
}

/// PR32: a container with its own clock would judge every lease by that clock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_in_use_under_another_clock_is_refused_until_nobody_is_left() {
    let file = OwnFile::new();
    let lock = job(&file.path());
    let held = lock.acquire().await.unwrap();
    let domain: String = file.open().query_row("SELECT domain FROM meta", [], |row| row.get(0)).unwrap();
    file.open().execute("UPDATE meta SET domain = 'another clock'", []).unwrap();
    let error = refused(&file.path()).await;
    assert_eq!(*error.kind(), Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("another clock"), "{error}");
    assert!(held.is_held());
    file.open().execute("UPDATE meta SET domain = ?1", [domain]).unwrap();
    assert!(job(&file.path()).try_acquire().await.unwrap().is_none(), "the leases were declared void");
    held.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_file_is_for_its_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let output = again("default_file_here", folder.path(), &[("XDG_STATE_HOME", folder.path())]);
    assert!(output.contains("1 passed"), "{output}");
    let own = folder.path().join("distlock");
    for (path, mode) in [
        (own.clone(), 0o700),
        (own.join("locks.db"), 0o600),
        (own.join("locks.db-wal"), 0o600),
        (own.join("locks.db-processes"), 0o700),
    ] {
        let found = fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(found.permissions().mode() & 0o777, mode, "{}", path.display());
    }
}

/// Not a test by itself: [`the_default_file_is_for_its_user_alone`] runs it in a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn default_file_here() {
    if std::env::var("DISTLOCK_AGAIN").as_deref() != Ok("default_file_here") {
        return ran_nothing("default_file_here", A_PART);
    }
    // Its client stays, and the default client does not share its thread, which makes no folder.
    let mut named = SqliteConfig::default();
    named.path = Some(Path::new(&std::env::var_os("XDG_STATE_HOME").unwrap()).join("distlock/locks.db"));
    let named = locks(named).mutex("job").unwrap();
    let error = named.try_acquire().await.unwrap_err();
    assert_eq!(kind(&error), Kind::Unreachable, "{error}");
    let guard = locks(SqliteConfig::default()).mutex("job").unwrap().acquire().await.unwrap();
    // The end of the process releases the lock. The log stays, so that the test can check it.
    std::mem::forget(guard);
}

/// A user who may write to the folder may put a pipe there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_in_place_of_the_file_of_a_process_keeps_nobody() {
    let file = OwnFile::new();
    let held = job(&file.path()).acquire().await.unwrap();
    let files = fs::read_dir(file.processes()).unwrap().flatten().map(|found| found.path());
    let lock =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "lock")).last().unwrap();
    fs::remove_file(&lock).unwrap();
    mkfifoat(CWD, &lock, Mode::from_raw_mode(0o600)).unwrap();
    let other = job(&file.path());
    assert!(other.try_acquire().await.unwrap().is_none(), "it was taken for the file of a dead process");
    held.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_grants_nothing_and_loses_nothing() {
    on_a_bad_disk("on_a_full_disk");
}

/// Not a test by itself: it runs in a process whose disk can be full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk() {
    let Some(file) = here("on_a_full_disk") else { return };
    let lock = job(&file.path());
    let held = lock.acquire().await.unwrap();
    let full = flag(".full");
    fs::write(&full, "").unwrap();
    let other = locks(config(&file.path())).mutex("other").unwrap();
    let error = other.acquire().await.unwrap_err();
    assert_eq!(kind(&error), Kind::OutOfMemory, "{error}");
    let error = other.try_acquire().await.unwrap_err();
    assert_eq!(kind(&error), Kind::OutOfMemory, "{error}");
    assert!(lock.try_acquire().await.unwrap().is_none(), "what needs no room can be said");
    assert!(held.is_held() && held.extend().await.is_err());
    fs::remove_file(full).unwrap();
    held.extend().await.unwrap();
    assert!(job(&file.path()).try_acquire().await.unwrap().is_none(), "the lock was lost");
    other.acquire().await.unwrap().release().await.unwrap();
    held.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_system_that_is_read_only_is_named_as_such() {
    on_a_bad_disk("on_a_read_only_disk");
}

/// Not a test by itself: it runs in a process whose disk can be read-only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_read_only_disk() {
    let Some(file) = here("on_a_read_only_disk") else { return };
    let readonly = flag(".readonly");
    fs::write(&readonly, "").unwrap();
    let error = refused(&file.path()).await;
    assert_eq!(*error.kind(), Kind::ReadOnly, "not there, and cannot be made: {error}");
    fs::remove_file(&readonly).unwrap();
    let held = job(&file.path()).acquire().await.unwrap();
    fs::write(&readonly, "").unwrap();
    let error = refused(&file.path()).await;
    assert_eq!(*error.kind(), Kind::ReadOnly, "there, and cannot be written: {error}");
    // A process that has the file open continues.
    held.extend().await.unwrap();
    fs::remove_file(&readonly).unwrap();
    held.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_token_comes_twice_when_the_power_is_lost() {
    on_a_bad_disk("on_a_disk_that_forgets");
}

/// Not a test by itself: it runs in a process whose disk records how much was synced (PR33).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_disk_that_forgets() {
    let Some(file) = here("on_a_disk_that_forgets") else { return };
    let held = job(&file.path()).acquire().await.unwrap();
    let written = fs::metadata(file.path().with_file_name("locks.db-wal")).unwrap().len();
    assert!(kept() < written, "the disk was waited for with every verb");
    let next = token_after_the_power_was_lost(&file).await;
    assert!(next > held.token(), "{next} after {}", held.token());
    // Above the ceiling on the disk.
    let raised = FencingToken::new(next.get() + (1 << 40));
    file::client(&file.path(), &Keeper::start().unwrap()).raise_tokens(raised).await.unwrap();
    let next = token_after_the_power_was_lost(&file).await;
    assert!(next > raised, "{next} after {raised}, which all were told to be above");
}

/// How much of the log was synced.
fn kept() -> u64 {
    fs::read_to_string(flag(".kept")).unwrap().parse().unwrap()
}

/// The first token that is minted after a loss of power.
async fn token_after_the_power_was_lost(file: &OwnFile) -> FencingToken {
    let other = OwnFile::new();
    copy(file, &other);
    let log = fs::OpenOptions::new().write(true).open(other.path().with_file_name("locks.db-wal")).unwrap();
    log.set_len(kept()).unwrap();
    other.open().execute("UPDATE meta SET domain = 'another boot'", []).unwrap();
    let next = job(&other.path()).try_acquire().await.unwrap().expect("no lease outlives a boot");
    next.token()
}

/// The disk is busy with other work: each wait for it takes three seconds, which is more than a verb may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_disk_keeps_nobody_waiting_once_the_file_is_open() {
    on_a_bad_disk("on_a_slow_disk");
}

/// Not a test by itself: it runs in a process whose disk can be slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_slow_disk() {
    let Some(file) = here("on_a_slow_disk") else { return };
    let lock = job(&file.path());
    lock.acquire().await.unwrap().release().await.unwrap();
    let slow = flag(".slow");
    fs::write(&slow, "").unwrap();
    for _ in 0..1500 {
        lock.acquire().await.unwrap().release().await.unwrap().confirmed().unwrap();
    }
    // Also a new client.
    job(&file.path()).acquire().await.unwrap().release().await.unwrap();
    assert!(waits() > 0, "the log was never brought into the file");
    fs::remove_file(&slow).unwrap();
    // The header of the log counts its restarts.
    let log = || fs::read(file.path().with_file_name("locks.db-wal")).unwrap()[12..16].to_vec();
    let (began, started) = (log(), Instant::now());
    while log() == began {
        assert!(started.elapsed() < 6 * SLACK, "the log grows on");
        lock.acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_file_costs_few_waits_for_the_disk_and_to_join_it_none() {
    on_a_bad_disk("on_a_disk_that_counts");
}

/// Not a test by itself: it runs in a process that counts its waits for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_disk_that_counts() {
    let Some(file) = here("on_a_disk_that_counts") else { return };
    let lock = job(&file.path());
    let held = lock.acquire().await.unwrap();
    // One wait each for the file, its name, the header of the log and the name of the log; more come only when the last client closes
    // the file. One for the tokens, too, if all that took longer than a second.
    let made = waits();
    assert!((4..=5).contains(&made), "{made}");
    assert!(job(&file.path()).try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
    assert_eq!(waits(), made);
}

/// Waits until the clients of a file are gone, with all their files beside it.
async fn gone(file: &OwnFile) {
    let started = Instant::now();
    while fs::read_dir(file.processes()).unwrap().count() > 0
        || file.path().with_file_name("locks.db-wal").exists()
    {
        assert!(started.elapsed() < SLACK, "clients that were dropped are still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Copies what a quick disk has after a loss of power: everything that was written.
fn copy(from: &OwnFile, to: &OwnFile) {
    for name in ["locks.db", "locks.db-wal"] {
        fs::copy(from.path().with_file_name(name), to.path().with_file_name(name)).unwrap();
    }
}
