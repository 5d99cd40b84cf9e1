//! A member of the file's group puts hostile files into its folder. These must not make a process touch foreign files, or block it.

#[allow(dead_code, reason = "shared with the suite")]
mod file;
#[allow(dead_code, reason = "shared with other tests")]
mod group;
#[allow(dead_code, reason = "shared with other tests")]
mod other;

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, lchown, symlink},
        net::UnixDatagram,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use lock_conformance::{SLACK, audit::within};
use lock_core::{
    AcquireOptions, BackendErrorKind as Kind, DistributedLock, Error, Keeper, LostReason, Operator,
};
use lock_sqlite::Sqlite;
use rustix::fs::{CWD, Mode, mkfifoat};

use self::{
    file::{OwnFile, config},
    group::{ANNA, BERT, GROUP, job, may_be_anybody, refused, shared},
    other::Other,
};

/// Not a test by itself: the tasks of another process.
#[test]
fn other() {
    other::carry_out(async |_, path| try_when_told(path).await);
}

/// Tries with one client whenever it is told to. Says the result, and how many milliseconds the try took.
async fn try_when_told(path: &Path) {
    let lock = job(path);
    other::say("ready");
    loop {
        tokio::task::block_in_place(other::listen);
        let asked = Instant::now();
        let answer = match lock.try_acquire().await {
            Ok(Some(guard)) => guard.release().await.map(|_| "granted".to_owned()).unwrap(),
            Err(Error::Backend { source, .. }) => format!("{:?}", source.kind()),
            answer => format!("{answer:?}"),
        };
        other::say(format!("{answer} {}", asked.elapsed().as_millis()));
    }
}

/// Has a file created and closed, so that only the folder of the processes is left beside it.
async fn fill(file: &OwnFile) {
    job(&file.path()).acquire().await.unwrap().release().await.unwrap();
    let started = Instant::now();
    while file.beside("-wal").exists() {
        assert!(started.elapsed() < SLACK, "a client that was dropped is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn own(path: &Path, user: u32, mode: u32) {
    chown(path, Some(user), Some(GROUP)).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_of_a_member_is_not_followed_and_nothing_is_made_where_it_leads() {
    if !may_be_anybody("a_link_of_a_member_is_not_followed_and_nothing_is_made_where_it_leads") {
        return;
    }
    let (file, _program) = shared(0o2770);
    let victims = tempfile::tempdir().unwrap();
    let (missing, text) = (victims.path().join("made"), victims.path().join("text"));
    fs::write(&text, "secret").unwrap();
    // One link may lead to another.
    let between = file.path().with_file_name("between");
    for (link, target) in [(&file.path(), &missing), (&file.path(), &text), (&between, &missing)] {
        fs::remove_file(file.path()).unwrap();
        symlink(target, link).unwrap();
        lchown(link, Some(ANNA), Some(GROUP)).unwrap();
        if *link == between {
            symlink(&between, file.path()).unwrap();
        }
        let error = refused(&file.path()).await;
        assert_eq!(*error.kind(), Kind::Denied, "{error}");
        assert!(error.is_unsent() && error.to_string().contains("give the path that it leads to"), "{error}");
    }
    assert_eq!(fs::read_dir(victims.path()).unwrap().count(), 1, "something was made there");
    assert_eq!(fs::read(&text).unwrap(), b"secret");
}

/// Processes that already use the file do not follow the link, either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_a_member_puts_there_later_is_not_followed() {
    if !may_be_anybody("a_link_that_a_member_puts_there_later_is_not_followed") {
        return;
    }
    let (file, _program) = shared(0o2770);
    let lock = job(&file.path());
    lock.acquire().await.unwrap().release().await.unwrap();
    let moved = file.path().with_file_name("moved.db");
    fs::rename(file.path(), &moved).unwrap();
    symlink(&moved, file.path()).unwrap();
    lchown(file.path(), Some(ANNA), Some(GROUP)).unwrap();
    let Err(Error::Backend { source, .. }) = lock.try_acquire().await else { panic!("it was followed") };
    assert_eq!(*source.kind(), Kind::Denied, "{source}");
}

/// Opening a pipe waits until another process opens it, and all later calls would wait behind that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pipe_in_place_of_the_file_or_beside_it_keeps_nobody() {
    if !may_be_anybody("a_pipe_in_place_of_the_file_or_beside_it_keeps_nobody") {
        return;
    }
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let (file, program) = shared(0o2770);
        fill(&file).await;
        let path = file.beside(suffix);
        // The member may move away the existing file, if it is the database itself.
        let aside = file.path().with_file_name("aside");
        let moved = fs::rename(&path, &aside).is_ok();
        mkfifoat(CWD, &path, Mode::RUSR).unwrap();
        own(&path, ANNA, 0o440);
        let limit = config(&file.path()).command_timeout;
        let mut bert = Other::start_as((BERT, GROUP), &program, "try", &file.path());
        assert_eq!(bert.says(), "ready");
        bert.tell("try");
        let said = bert.says();
        let (answer, after) = said.split_once(' ').unwrap();
        assert_eq!(answer, "Denied", "`{suffix}`");
        assert!(after.parse::<u128>().unwrap() < 2 * limit.as_millis(), "`{suffix}`: after {after} ms");
        fs::remove_file(&path).unwrap();
        if moved {
            fs::rename(&aside, &path).unwrap();
        }
        bert.tell("try");
        let said = bert.says();
        assert!(said.starts_with("granted "), "`{suffix}`, when the pipe is gone: {said}");
    }
}

/// A journal that SQLite leaves behind when it was interrupted in a transaction of several databases: it names a file that all of them
/// share, and that is deleted when all are rolled back.
fn journal(database: &Path, names: &Path) -> Vec<u8> {
    const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    const PAGE: u32 = 4096;
    let pages = u32::try_from(fs::metadata(database).unwrap().len()).unwrap() / PAGE;
    let name = names.to_str().unwrap().as_bytes();
    let mut journal = MAGIC.to_vec();
    // The journal has no page to write back. The rest of the header is about all pages.
    for number in [0, 0, pages, 512, PAGE] {
        journal.extend(u32::to_be_bytes(number));
    }
    journal.resize(512, 0);
    journal.extend(u32::to_be_bytes(0x4000_0000 / PAGE + 1));
    journal.extend(name);
    journal.extend(u32::to_be_bytes(u32::try_from(name.len()).unwrap()));
    journal.extend(u32::to_be_bytes(name.iter().map(|byte| u32::from(*byte)).sum()));
    journal.extend(MAGIC);
    journal
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_names_a_file_of_somebody_else_deletes_nothing() {
    let file = OwnFile::new();
    fill(&file).await;
    let victim = file.path().with_file_name("victim");
    fs::write(&victim, "secret").unwrap();
    // SQLite by itself executes the journal.
    let other = file.path().with_file_name("other.db");
    fs::copy(file.path(), &other).unwrap();
    fs::write(file.path().with_file_name("other.db-journal"), journal(&other, &victim)).unwrap();
    let opened = rusqlite::Connection::open(&other).unwrap();
    opened.query_row("PRAGMA user_version", [], |_| Ok(())).unwrap();
    assert!(!victim.exists(), "no journal that is played back was made");

    fs::write(&victim, "secret").unwrap();
    fs::write(file.beside("-journal"), journal(&file.path(), &victim)).unwrap();
    let error = refused(&file.path()).await;
    assert_eq!(*error.kind(), Kind::Denied, "{error}");
    assert!(error.to_string().contains("a journal stands beside the database"), "{error}");
    assert_eq!(fs::read(&victim).unwrap(), b"secret");
    fs::remove_file(file.beside("-journal")).unwrap();
    assert!(job(&file.path()).try_acquire().await.unwrap().is_some());
}

/// Otherwise a process would take the journal of another process for a foreign one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_file_is_filled_without_a_journal_beside_it() {
    let file = OwnFile::new();
    fs::write(file.path(), "").unwrap();
    let journal = file.beside("-journal");
    // A folder in its place keeps SQLite from creating a journal.
    let folder = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::NONBLOCK).unwrap();
    let made = rustix::fs::inotify::WatchFlags::CREATE;
    rustix::fs::inotify::add_watch(&folder, file.path().parent().unwrap(), made).unwrap();
    job(&file.path()).acquire().await.unwrap().release().await.unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = rustix::fs::inotify::Reader::new(&folder, &mut buffer);
    let mut names = Vec::new();
    while let Ok(event) = events.next() {
        names.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
    }
    assert!(names.iter().any(|name| name == "locks.db-wal"), "{names:?}");
    assert!(!names.iter().any(|name| journal.ends_with(name)), "{names:?}");
}

/// SQLite as root would write into that file, and give it to the owner of the database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_moved_to_where_the_log_is_expected_stays_as_it_is() {
    if !may_be_anybody("what_was_moved_to_where_the_log_is_expected_stays_as_it_is") {
        return;
    }
    for owner in [0, ANNA] {
        for suffix in ["-wal", "-shm"] {
            let (file, _program) = shared(0o2770);
            fill(&file).await;
            own(&file.path(), owner, 0o660);
            let victim = file.path().with_file_name("victim");
            fs::write(&victim, "secret").unwrap();
            own(&victim, 0, 0o600);
            fs::rename(&victim, file.beside(suffix)).unwrap();
            let error = refused(&file.path()).await;
            assert_eq!(*error.kind(), Kind::Denied, "{owner}, `{suffix}`: {error}");
            let found = fs::metadata(file.beside(suffix)).unwrap();
            assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600), "{owner}, `{suffix}`");
            assert_eq!(fs::read(file.beside(suffix)).unwrap(), b"secret");
        }
    }
}

/// A message to a socket is believed, but the lease of a waiter is not extended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_told_by_a_stranger_that_it_holds_a_lock_loses_it_soon() {
    let file = OwnFile::new();
    let ttl = Duration::from_secs(9);
    let lock = job(&file.path());
    let held = lock.acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = job(&file.path());
        async move { lock.acquire_with(&AcquireOptions::new().ttl(ttl)).await.unwrap() }
    });
    while lock.queue().await.unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let find = "SELECT member, entry, token FROM entries WHERE admitted = 0";
    let (socket, message): (PathBuf, String) = file
        .open()
        .query_row(find, [], |row| {
            let (member, entry, token) =
                (row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?);
            let socket = file.processes().join(format!("{member:016x}.sock"));
            Ok((socket, format!("admitted {entry} {token}")))
        })
        .unwrap();
    UnixDatagram::unbound().unwrap().send_to(message.as_bytes(), socket).unwrap();
    let guard = within("what a stranger said", SLACK, waiter).await.unwrap();
    assert_eq!(within("the loss", ttl / 3 + SLACK, guard.lost()).await, LostReason::Gone);
    assert!(held.is_held());
    held.release().await.unwrap().confirmed().unwrap();
}

/// A user who may read a file may lock it, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_tells_of_a_file_that_others_may_read() {
    for (mode, expected) in [(0o600, false), (0o640, true), (0o604, true), (0o660, false)] {
        let file = OwnFile::new();
        fs::set_permissions(file.path().parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
        let sqlite = Sqlite::connect(config(&file.path()), &Keeper::start().unwrap()).await.unwrap();
        fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
        let problems = sqlite.diagnose().await.unwrap().problems;
        let told = problems.iter().any(|problem| problem.contains("others may read"));
        assert_eq!(told, expected, "{mode:o}: {problems:?}");
    }
}
