//! [`HolderWatch`]: watches, for the waiters of this process, whether the holders ahead of them are alive, because a dead process cannot
//! notify others. Also finds hints that were lost.

#[cfg(test)]
mod pace_tests;
mod watched_processes;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    sync::Arc,
    time::{Duration, Instant},
};

use lock_core::{BackendError, EntryId, FencingToken, Hint, LockName};
use rusqlite::Connection;

pub(crate) use self::watched_processes::NEXT;
use self::watched_processes::WatchedProcesses;
use crate::{error::Failure, process_lock, reap::reap_dead, store::Store};

/// How often lost hints are looked for.
const HINTS: Duration = Duration::from_millis(100);

/// At every tenth look, SQLite is asked whether any process has written, even if the log looks unchanged.
const UNASKED: u32 = 10;

/// The modification time of the log shows the last write, with the precision of its file system. Two writes that are younger than this may
/// have the same time.
const FRESH: Duration = Duration::from_secs(2);

/// How long a look waits for writers.
const PATIENCE: Duration = Duration::from_millis(50);

/// Up to this many waiters of one name are looked up one by one. With more, all entries of this process in the queue are read.
const FEW: usize = 8;

/// The waiters of this process, by name.
type Waiting = BTreeMap<LockName, Vec<(FencingToken, EntryId)>>;

/// What is known about the holders that this process waits for.
#[derive(Debug)]
pub(crate) struct HolderWatch {
    /// What the file system showed when SQLite was last asked.
    fingerprint: Option<Fingerprint>,
    /// The number of looks since then.
    unasked: u32,
    /// The state at the last read: SQLite's count of foreign commits, the store's count of its own, and the waiters' count of changes.
    read_at: Option<(i64, u64, u64)>,
    waiting: Waiting,
    watched: WatchedProcesses,
    /// The number of looks since any of this changed.
    still: u32,
    /// Whether a hint may have been lost since the last search for lost ones.
    hints_due: bool,
    hints_at: Option<Instant>,
}

/// A state that can be read without SQLite. If it is unchanged, so is everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    /// The device, inode, length and modification time of the log.
    log: Option<(u64, u64, u64, i64, i64)>,
    changes: u64,
    waiters: u64,
}

impl Fingerprint {
    /// Takes one look at the file system. The second value is whether the log is so new that two writes may look like one.
    fn at(store: &Store) -> (Self, bool) {
        let found = fs::metadata(&store.files.wal).ok();
        let age = found.as_ref().and_then(|found| found.modified().ok()?.elapsed().ok());
        let log =
            found.map(|found| (found.dev(), found.ino(), found.len(), found.mtime(), found.mtime_nsec()));
        let fingerprint = Self { log, changes: store.changes, waiters: store.notifier.waiters.changes() };
        (fingerprint, age.is_none_or(|age| age < FRESH))
    }
}

impl HolderWatch {
    pub(crate) fn new() -> Self {
        Self {
            fingerprint: None,
            unasked: 0,
            read_at: None,
            waiting: Waiting::new(),
            watched: WatchedProcesses::at_the_front(),
            still: 0,
            hints_due: true,
            hints_at: None,
        }
    }

    /// How long until the next look.
    pub(crate) fn pause(&self) -> Duration {
        self.watched.pause(self.still)
    }

    /// Removes dead holders, and returns hints that were lost.
    ///
    /// # Errors
    /// The failure. The next look may find more.
    pub(crate) fn look(&mut self, store: &mut Store) -> Result<Vec<(EntryId, Hint)>, BackendError> {
        let give_up = Instant::now() + PATIENCE;
        let (fingerprint, is_fresh) = Fingerprint::at(store);
        self.unasked += 1;
        self.still = self.still.saturating_add(1);
        if self.fingerprint != Some(fingerprint) || is_fresh || self.unasked >= UNASKED {
            self.ask(store, fingerprint, give_up)?;
        }
        // The read has created them.
        let Some(folder) =
            store.process_files.as_ref().map(|process_files| Arc::clone(process_files.folder()))
        else {
            return Ok(Vec::new());
        };
        let dead: Vec<i64> = self
            .watched
            .members
            .iter()
            .filter(|member| process_lock::is_dead(&folder, member))
            .map(|member| member.id)
            .collect();
        if !dead.is_empty() {
            store.write(give_up, |transaction| reap_dead(transaction, dead.iter().copied()))?;
            // The next holder may be dead, too.
            (self.read_at, self.fingerprint, self.watched) = (None, None, WatchedProcesses::at_the_front());
        }
        if self.hints_due && self.hints_at.is_none_or(|at| at.elapsed() >= HINTS) {
            let hints = self.lost_hints(store, give_up)?;
            (self.hints_due, self.hints_at) = (false, Some(Instant::now()));
            return Ok(hints);
        }
        Ok(Vec::new())
    }

    /// Asks SQLite whether any process has written. If so, reads which processes are ahead of the waiters.
    fn ask(
        &mut self,
        store: &mut Store,
        fingerprint: Fingerprint,
        give_up: Instant,
    ) -> Result<(), BackendError> {
        let version = store.read(give_up, |connection, _| {
            let mut version = connection.prepare_cached("PRAGMA data_version")?;
            Ok(version.query_row([], |row| row.get::<_, i64>(0))?)
        })?;
        let read_at = (version, store.changes, fingerprint.waiters);
        if self.read_at != Some(read_at) {
            if self.read_at.is_none_or(|(_, _, waiters)| waiters != fingerprint.waiters) {
                self.waiting = by_name(store.notifier.waiters.places());
                self.still = 0;
            }
            let waiting = &self.waiting;
            let watched = store.read(give_up, |connection, process_files| {
                let mut watched = WatchedProcesses::nobody();
                for name in waiting.keys() {
                    watched.add(connection, name, process_files.id())?;
                }
                Ok(watched)
            })?;
            if self.watched != watched {
                (self.watched, self.still) = (watched, 0);
            }
            (self.read_at, self.hints_due) = (Some(read_at), true);
        }
        (self.fingerprint, self.unasked) = (Some(fingerprint), 0);
        Ok(())
    }

    /// Finds hints whose datagrams were lost: a datagram for which a socket has no room is not sent again.
    fn lost_hints(&self, store: &mut Store, give_up: Instant) -> Result<Vec<(EntryId, Hint)>, BackendError> {
        store.read(give_up, |connection, process_files| {
            let mut hints = Vec::new();
            for (name, places) in &self.waiting {
                let admitted = admitted(connection, name, process_files.id(), places)?;
                for (token, entry) in places {
                    match admitted.get(&token.get().cast_signed()) {
                        Some(true) => hints.push((*entry, Hint::Admitted { token: *token })),
                        Some(false) => {}
                        None => hints.push((*entry, Hint::Changed)),
                    }
                }
            }
            Ok(hints)
        })
    }
}

fn by_name(places: Vec<(EntryId, LockName, FencingToken)>) -> Waiting {
    let mut waiting = Waiting::new();
    for (entry, name, token) in places {
        waiting.entry(name).or_default().push((token, entry));
    }
    waiting
}

/// Which of these entries are in the queue, by their tokens, and whether they are admitted.
fn admitted(
    connection: &Connection,
    name: &LockName,
    me: i64,
    places: &[(FencingToken, EntryId)],
) -> Result<BTreeMap<i64, bool>, Failure> {
    if places.len() > FEW {
        let all = "SELECT token, admitted FROM entries WHERE name = ?1 AND member = ?2";
        let mut all = connection.prepare_cached(all)?;
        let rows = all.query_map((name.as_str(), me), |row| Ok((row.get(0)?, row.get(1)?)))?;
        return Ok(rows.collect::<Result<_, _>>()?);
    }
    let mut one =
        connection.prepare_cached("SELECT token, admitted FROM entries WHERE name = ?1 AND token = ?2")?;
    let mut found = BTreeMap::new();
    for (token, _) in places {
        let row =
            one.query_map((name.as_str(), token.get().cast_signed()), |row| Ok((row.get(0)?, row.get(1)?)))?;
        for row in row {
            let (token, admitted) = row?;
            found.insert(token, admitted);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use lock_core::{Claim, Entry, Hints, Step, WaitMode};
    use rusqlite::trace::{TraceEvent, TraceEventCodes};

    use super::{watched_processes::BEHIND, *};
    use crate::{
        backend::{
            enter::{self, EntryState},
            leave,
        },
        files::Files,
        notify::notifier::Notifier,
    };

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A holder, and this many waiters of another client behind it.
    struct Queue {
        _folder: tempfile::TempDir,
        holder: Store,
        waiters: Store,
        hints: Vec<Hints>,
    }

    fn entry(number: u128) -> Entry {
        let name = LockName::new("job").unwrap();
        Entry::new(name, EntryId::new(number), Claim::mutex(), Duration::from_secs(600))
    }

    fn enter(store: &mut Store, number: u128) -> EntryState {
        let create = |transaction: &mut crate::transaction::Transaction<'_>| {
            enter::enter(transaction, &entry(number), Step::Create, WaitMode::Queue)
        };
        store.write(Instant::now() + PATIENCE, create).unwrap()
    }

    impl Queue {
        fn of(waiting: u128) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store = || {
                let files = Files::new(Some(&folder.path().join("locks.db"))).unwrap();
                Store::new(files, Notifier::default(), PATIENCE)
            };
            let (mut holder, mut waiters) = (store(), store());
            assert!(matches!(enter(&mut holder, 0), EntryState::Admitted { .. }));
            let hints = (1..=waiting).map(|number| match enter(&mut waiters, number) {
                EntryState::Waiting { hints, .. } => hints,
                _ => panic!("it does not wait"),
            });
            let hints = hints.collect();
            Self { _folder: folder, holder, waiters, hints }
        }

        /// This sends no messages, because the store has no executor.
        fn leave(&mut self, number: u128) {
            let leave = |transaction: &mut crate::transaction::Transaction<'_>| {
                leave::leave(transaction, &entry(number).name, entry(number).id).map(drop)
            };
            self.holder.write(Instant::now() + PATIENCE, leave).unwrap();
        }
    }

    /// Whether the log is so old that only a write makes a look ask SQLite.
    fn is_quiet(log: &Path) -> bool {
        fs::metadata(log).unwrap().modified().unwrap().elapsed().is_ok_and(|age| age > FRESH)
    }

    static STATEMENTS: AtomicUsize = AtomicUsize::new(0);

    fn count(_: TraceEvent<'_>) {
        STATEMENTS.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of looks that the next waiter takes in two seconds.
    #[test]
    fn idle_waiters_ask_the_file_equally_seldom_however_many_they_are() {
        const LOOKS: usize = 80;
        let asked = [20, 400].map(|waiting| {
            let mut queue = Queue::of(waiting);
            let started = Instant::now();
            while !is_quiet(&queue.waiters.files.wal) {
                assert!(started.elapsed() < PATIENCE, "somebody writes");
                std::thread::sleep(Duration::from_millis(50));
            }
            let mut watch = HolderWatch::new();
            drop(watch.look(&mut queue.waiters));
            let database = queue.waiters.database.as_ref().unwrap();
            database.connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(count));
            STATEMENTS.store(0, Ordering::Relaxed);
            for _ in 0..LOOKS {
                assert!(watch.look(&mut queue.waiters).unwrap_or_default().is_empty());
            }
            assert_eq!(watch.pause(), NEXT);
            assert_eq!(queue.hints.len() as u128, waiting);
            STATEMENTS.load(Ordering::Relaxed)
        });
        assert_eq!(asked[0], asked[1]);
        assert_eq!(asked[0], LOOKS / UNASKED as usize, "one statement for each time that it is asked");
    }

    #[test]
    fn hints_that_were_lost_are_found_for_few_and_for_many() {
        for waiting in [2, FEW as u128 + 2] {
            let (mut queue, mut watch) = (Queue::of(waiting), HolderWatch::new());
            assert!(watch.look(&mut queue.waiters).unwrap_or_default().is_empty());
            queue.leave(0);
            queue.leave(2);
            let (mut hints, started) = (Vec::new(), Instant::now());
            while hints.is_empty() {
                assert!(started.elapsed() < PATIENCE, "{waiting}: they are not found");
                hints = watch.look(&mut queue.waiters).unwrap_or_default();
            }
            let [(first, Hint::Admitted { .. }), (second, Hint::Changed)] = hints[..] else {
                panic!("{waiting}: {hints:?}")
            };
            assert_eq!((first, second), (EntryId::new(1), EntryId::new(2)));
            assert!(!queue.hints.is_empty());
        }
    }

    /// The waiters of this process may be behind another one, which looks more often.
    #[test]
    fn a_process_that_is_not_the_next_looks_less_often_until_it_is() {
        let (mut queue, mut watch) = (Queue::of(1), HolderWatch::new());
        let behind = {
            let files = queue.waiters.files.clone();
            let mut store = Store::new(files, Notifier::default(), PATIENCE);
            let EntryState::Waiting { hints, .. } = enter(&mut store, 7) else { panic!("it does not wait") };
            drop(watch.look(&mut store));
            assert_eq!(watch.pause(), BEHIND);
            queue.leave(1);
            drop(watch.look(&mut store));
            drop(hints);
            watch.pause()
        };
        assert_eq!(behind, NEXT);
    }
}
