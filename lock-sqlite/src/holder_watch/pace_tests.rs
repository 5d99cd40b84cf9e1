//! How often a process looks at the processes ahead, by its place in the queue.

use lock_core::{Claim, Entry, Hints, Step, WaitMode};

use super::{
    watched_processes::{BEHIND, FAR},
    *,
};
use crate::{
    backend::{
        enter::{self, EntryState},
        leave,
    },
    files::Files,
    notify::notifier::Notifier,
    transaction::Transaction,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// One client of a queue, and the hints it listens to while it waits.
struct Client {
    store: Store,
    entry: Entry,
    _hints: Option<Hints>,
}

impl Client {
    /// This many clients, in this order. The first holds the lock.
    fn queue(folder: &tempfile::TempDir, number: u128) -> Vec<Self> {
        (0..number).map(|number| Self::come(folder, number)).collect()
    }

    fn come(folder: &tempfile::TempDir, number: u128) -> Self {
        let files = Files::new(Some(&folder.path().join("locks.db"))).unwrap();
        let mut store = Store::new(files, Notifier::default(), PATIENCE);
        let name = LockName::new("job").unwrap();
        let entry = Entry::new(name, EntryId::new(number), Claim::mutex(), Duration::from_secs(600));
        let enter = |transaction: &mut Transaction<'_>| {
            enter::enter(transaction, &entry, Step::Create, WaitMode::Queue)
        };
        let hints = match store.write(Instant::now() + PATIENCE, enter).unwrap() {
            EntryState::Waiting { hints, .. } => Some(hints),
            _ => None,
        };
        Self { store, entry, _hints: hints }
    }

    /// Leaves, and sends its messages, as an executor does.
    fn leave(&mut self) {
        let entry = &self.entry;
        let leave =
            |transaction: &mut Transaction<'_>| leave::leave(transaction, &entry.name, entry.id).map(drop);
        self.store.write(Instant::now() + PATIENCE, leave).unwrap();
        let notifier = self.store.notifier.clone();
        self.store.take_outbox().send(&notifier);
    }

    fn wakes(&self) -> u64 {
        self.store.notifier.waiters.waker.prepare_sleep(false)
    }

    /// The length of the queue.
    fn count(&mut self) -> i64 {
        let count = "SELECT count(*) FROM entries";
        let read = self.store.read(Instant::now() + PATIENCE, |connection, _| {
            Ok(connection.query_row(count, [], |row| row.get::<_, i64>(0))?)
        });
        read.unwrap()
    }
}

#[test]
fn a_process_behind_two_others_looks_ever_more_seldom() {
    let folder = tempfile::tempdir().unwrap();
    let mut clients = Client::queue(&folder, 5);
    for (place, pause) in [(1, NEXT), (2, BEHIND), (3, FAR), (4, FAR)] {
        let mut watch = HolderWatch::new();
        // On a busy machine some looks fail.
        for _ in 0..20 {
            drop(watch.look(&mut clients[place].store));
        }
        assert_eq!(watch.pause(), pause, "{place}");
    }
    let far = WatchedProcesses::nobody();
    assert_eq!((far.pause(0), far.pause(1), far.pause(u32::MAX)), (BEHIND, BEHIND * 2, FAR));
}

/// Otherwise no process would look any more once the processes that look often are dead.
#[test]
fn dead_processes_that_looked_often_are_removed_by_one_behind_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut clients = Client::queue(&folder, 4);
    let mut last = clients.pop().unwrap();
    // The holder is alive.
    clients.truncate(1);
    let (mut watch, started) = (HolderWatch::new(), Instant::now());
    while last.count() > 2 {
        assert!(started.elapsed() < PATIENCE, "the dead still stand in the queue");
        drop(watch.look(&mut last.store));
    }
    assert_eq!(watch.pause(), NEXT);
    assert_eq!(clients[0].count(), 2, "the holder was taken for dead");
}

/// The process sleeps for long, and would not check for so long whether the holder is alive.
#[test]
fn only_the_process_that_becomes_the_next_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut clients = Client::queue(&folder, 6);
    let before: Vec<u64> = clients.iter().map(Client::wakes).collect();
    let until_told = |clients: &[Client], expected: [u64; 6]| {
        let (mut told, started) = ([0; 6], Instant::now());
        while told != expected {
            assert!(started.elapsed() < PATIENCE, "{told:?}, and not {expected:?}");
            std::thread::sleep(Duration::from_millis(2));
            told = std::array::from_fn(|place| clients[place].wakes() - before[place]);
        }
    };
    clients[4].leave();
    clients[1].leave();
    until_told(&clients, [0, 0, 1, 0, 0, 0]);
    // Now that process holds the lock, and the one behind it is the next.
    clients[0].leave();
    until_told(&clients, [0, 0, 2, 1, 0, 0]);
}
