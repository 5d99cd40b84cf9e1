//! One file under several paths, and half a file: nobody ever holds a lock that somebody else holds under another path, or with
//! another log.

#[allow(dead_code, reason = "shared with the suite")]
mod file;
#[allow(dead_code, reason = "shared with other tests")]
mod other;

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use lock_conformance::{SLACK, audit::LONG, ran_nothing};
use lock_core::{
    AcquireOptions, BackendError, BackendErrorKind as Kind, DistributedLock, FencingToken, Keeper, Locks,
    Mutex, Operator, Release, SystemEntropy,
};
use lock_sqlite::{ConnectError, Sqlite, SqliteConfig};

use self::{file::OwnFile, other::Other};

fn config(path: &Path) -> SqliteConfig {
    let mut config = SqliteConfig::default();
    config.path = Some(path.to_owned());
    config
}

fn job(path: &Path) -> Mutex {
    let keeper = Keeper::start().unwrap();
    let backend = Arc::new(Sqlite::new(config(path), &keeper).unwrap());
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

/// Not a test: what another process does.
#[test]
fn other() {
    let Ok(task) = std::env::var("DISTLOCK_OTHER") else {
        return ran_nothing("other", "it is what other tests start in a process of its own");
    };
    let path = PathBuf::from(std::env::var("DISTLOCK_FILE").unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        match task.as_str() {
            "hold" => hold(&path, Duration::from_secs(6)).await,
            "hold for long" => hold(&path, LONG).await,
            _ => take_once(&path).await,
        }
    });
    std::process::exit(0);
}

async fn hold(path: &Path, ttl: Duration) {
    let guard = job(path).acquire_with(&AcquireOptions::new().ttl(ttl)).await.unwrap();
    other::say(guard.token());
    loop {
        tokio::task::block_in_place(other::listen);
        other::say(guard.is_held());
    }
}

/// As soon as it is told to.
async fn take_once(path: &Path) {
    other::say("ready");
    tokio::task::block_in_place(other::listen);
    let guard = job(path).acquire().await.unwrap();
    other::say(guard.token());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_two_names_is_refused_under_each_and_whoever_has_it_open_keeps_his_lock() {
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
    assert_eq!(held.release().await.unwrap(), Release::Released);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_mounted_by_itself_is_refused() {
    let file = OwnFile::new();
    let held = job(&file.path()).acquire().await.unwrap();
    let second = file.path().with_file_name("mounted.db");
    fs::write(&second, "").unwrap();
    // In a world of mounts of its own, which ends with it.
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

/// Not a test: what [`a_file_that_is_mounted_by_itself_is_refused`] has done where it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_mounted_file() {
    if std::env::var("DISTLOCK_OTHER").as_deref() != Ok("on_a_mounted_file") {
        return ran_nothing("on_a_mounted_file", "it is a part of another test");
    }
    let error = refused(Path::new(&std::env::var("DISTLOCK_FILE").unwrap())).await;
    assert_eq!(*error.kind(), Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("mount its folder"), "{error}");
}

/// So that the death of one is seen by the other, who is told what happens to the lock.
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

/// PR32: as when the file is deleted. In the new log nobody holds anything, and tokens go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_log_was_deleted_learns_that_it_holds_nothing_and_its_token_does_not_come_again() {
    let file = OwnFile::new();
    let mut holder = Other::start("hold", &file.path());
    let token: FencingToken = holder.says().parse().unwrap();
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(file.beside(suffix)).unwrap();
    }
    let next = job(&file.path()).try_acquire().await.unwrap().expect("nobody holds it in the new log");
    assert!(next.token() > token, "{} after {token}", next.token());
    let started = Instant::now();
    loop {
        holder.tell("well?");
        if holder.says() == "false" {
            break;
        }
        assert!(started.elapsed() < SLACK, "it still takes itself for the holder");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(next.release().await.unwrap(), Release::Released);
}

/// Whoever made another one would damage both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_was_deleted_by_itself_is_nobodys_until_those_who_have_it_have_noticed() {
    let file = OwnFile::new();
    let mut holder = Other::start("hold", &file.path());
    holder.says();
    fs::remove_file(file.beside("-wal")).unwrap();
    let started = Instant::now();
    let other = job(&file.path());
    loop {
        match other.try_acquire().await {
            // The holder has brought it into the file.
            Ok(guard) => {
                assert!(guard.is_none(), "the lock of the holder was lost");
                break;
            }
            Err(error) => assert!(error.is_transient(), "{error:?}"),
        }
        assert!(started.elapsed() < SLACK, "the holder did not notice");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    holder.tell("well?");
    assert_eq!(holder.says(), "true");
}

/// The log and the shared memory come with the first of them, and go with the last: at no moment is that taken for damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_open_a_new_file_at_the_same_moment_and_leave_it_are_all_served() {
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

/// Two users of one group, in a folder that gives what is made in it its group, and in one that does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_one_group_see_each_other_die_and_tell_each_other() {
    const GROUP: u32 = 54_321;
    if !rustix::process::geteuid().is_root() {
        return ran_nothing(
            "users_of_one_group_see_each_other_die_and_tell_each_other",
            "it takes other users",
        );
    }
    for folder_mode in [0o2770, 0o770] {
        let file = OwnFile::new();
        let folder = file.path().parent().unwrap().to_owned();
        fs::write(file.path(), "").unwrap();
        for (path, mode) in [(file.path(), 0o660), (folder, folder_mode)] {
            chown(&path, None, Some(GROUP)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        let holder = Other::start_as(54_001, GROUP, "hold for long", &file.path());
        holder.says();
        let waiter = Other::start_as(54_002, GROUP, "hold for long", &file.path());
        let beside = |extension: &str| -> Vec<PathBuf> {
            let all = fs::read_dir(file.processes()).unwrap().flatten().map(|found| found.path());
            all.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
        };
        let started = Instant::now();
        while beside("sock").len() < 2 {
            assert!(started.elapsed() < SLACK, "the second user has not come");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let processes = fs::metadata(file.processes()).unwrap();
        assert_eq!((processes.gid(), processes.mode() & 0o7777), (GROUP, 0o2770));
        for path in [beside("lock"), beside("sock"), vec![file.beside("-wal"), file.beside("-shm")]].concat()
        {
            let found = fs::metadata(&path).unwrap();
            assert_eq!((found.gid(), found.mode() & 0o777), (GROUP, 0o660), "{}", path.display());
        }
        let killed = Instant::now();
        holder.kill();
        waiter.says();
        assert!(
            killed.elapsed() < SLACK,
            "the death of another user was not seen, for {:?}",
            killed.elapsed()
        );
    }
}
