//! [`WatchedProcesses`]: whose files are looked at for those who wait in this process, and how soon they are looked at again.

use std::time::Duration;

use lock_core::LockName;
use rusqlite::Connection;

use crate::{error::Failure, process_lock::Member, transaction::member};

/// How often holders are looked at where the next is one of ours (PR34).
pub(crate) const NEXT: Duration = Duration::from_millis(25);

/// And where one process is ahead, which looks for itself: it may be stopped, or die with the holder.
pub(crate) const BEHIND: Duration = Duration::from_millis(75);

/// And where more are, of which two would have to die: at first as often, then more and more seldom as long as the queue stands still,
/// down to this. A hundred processes that wait cost no more than a few.
pub(crate) const FAR: Duration = Duration::from_secs(2);

/// So many processes that wait look often. Those behind them look whether they live.
const WATCHERS: usize = 2;

/// Of so many who wait at the most it is read whose they are. If all are of few processes, we may be among those who look often.
const FEW: usize = 16;

/// What somebody here waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WatchedProcesses {
    /// Those who hold it, and of those who wait for it ahead of ours the first. None of them is this process.
    pub(crate) members: Vec<Member>,
    /// How many other processes wait ahead of ours, where they are fewest. As far as it was read.
    ahead: usize,
}

impl WatchedProcesses {
    /// Nothing is waited for.
    pub(crate) fn nobody() -> Self {
        Self { members: Vec::new(), ahead: WATCHERS }
    }

    /// Somebody of ours may be the next. It was not read.
    pub(crate) fn at_the_front() -> Self {
        Self { members: Vec::new(), ahead: 0 }
    }

    /// How long until the next look, after so many looks that saw nothing else.
    pub(crate) fn pause(&self, looks: u32) -> Duration {
        match self.ahead {
            0 => NEXT,
            1 => BEHIND,
            _ => (BEHIND * (1_u32 << looks.min(8))).min(FAR),
        }
    }

    /// One name more for which somebody of ours waits.
    ///
    /// # Errors
    /// Those of SQLite.
    pub(crate) fn add(&mut self, connection: &Connection, name: &LockName, me: i64) -> Result<(), Failure> {
        let mut select = connection.prepare_cached(
            "SELECT members.id, device, inode, admitted, member FROM entries LEFT JOIN members ON members.id = member
             WHERE name = ?1 ORDER BY token",
        )?;
        let mut rows = select.query([name.as_str()])?;
        let (mut ahead, mut waiting) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let id = row.get::<_, i64>(4)?;
            // Those who are admitted come first.
            if !row.get::<_, bool>(3)? {
                waiting += 1;
                if id == me || waiting > FEW {
                    break;
                }
                if !ahead.contains(&id) {
                    ahead.push(id);
                }
            }
            // Without a file that is known, nobody can tell whether it lives.
            if id != me && row.get::<_, Option<i64>>(0)?.is_some() {
                let found = member(row)?;
                if !self.members.contains(&found) {
                    self.members.push(found);
                }
            }
            if ahead.len() == WATCHERS {
                break;
            }
        }
        self.ahead = self.ahead.min(ahead.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use lock_core::{Claim, Entry, EntryId, Hints, Step, WaitMode};

    use super::*;
    use crate::{
        backend::{
            enter::{self, EntryState},
            leave,
        },
        files::Files,
        holder_watch::HolderWatch,
        notify::notifier::Notifier,
        store::Store,
        transaction::Transaction,
    };

    const PATIENCE: Duration = Duration::from_secs(20);

    /// One client of a queue, and what it listens to while it waits.
    struct Client {
        store: Store,
        entry: Entry,
        _hints: Option<Hints>,
    }

    impl Client {
        /// So many, in this order. The first holds the lock.
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

        /// As its own desk has it done.
        fn leave(&mut self) {
            let entry = &self.entry;
            let leave = |transaction: &mut Transaction<'_>| {
                leave::leave(transaction, &entry.name, entry.id).map(drop)
            };
            self.store.write(Instant::now() + PATIENCE, leave).unwrap();
            let notifier = self.store.notifier.clone();
            self.store.take_outbox().send(&notifier);
        }

        fn rings(&self) -> u64 {
            self.store.notifier.waiters.waker.prepare_sleep(false)
        }

        /// How many stand in the queue.
        fn count(&mut self) -> i64 {
            let count = "SELECT count(*) FROM entries";
            let read = self.store.read(Instant::now() + PATIENCE, |connection, _| {
                Ok(connection.query_row(count, [], |row| row.get::<_, i64>(0))?)
            });
            read.unwrap()
        }
    }

    #[test]
    fn who_is_behind_two_others_looks_ever_more_seldom_and_they_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut clients = Client::queue(&folder, 5);
        for (place, pause) in [(1, NEXT), (2, BEHIND), (3, FAR), (4, FAR)] {
            let mut watch = HolderWatch::new();
            // On a busy machine some of them come to nothing.
            for _ in 0..20 {
                watch.look(&mut clients[place].store);
            }
            assert_eq!(watch.pause(), pause, "{place}");
        }
        let far = WatchedProcesses::nobody();
        assert_eq!((far.pause(0), far.pause(1), far.pause(u32::MAX)), (BEHIND, BEHIND * 2, FAR));
    }

    /// Else nobody would look any more, when those who look often are dead.
    #[test]
    fn those_who_look_often_are_buried_by_one_behind_them() {
        let folder = tempfile::tempdir().unwrap();
        let mut clients = Client::queue(&folder, 4);
        let mut last = clients.pop().unwrap();
        // The holder lives.
        clients.truncate(1);
        let (mut watch, started) = (HolderWatch::new(), Instant::now());
        while last.count() > 2 {
            assert!(started.elapsed() < PATIENCE, "the dead still stand in the queue");
            watch.look(&mut last.store);
        }
        assert_eq!(watch.pause(), NEXT);
        assert_eq!(clients[0].count(), 2, "the holder was taken for dead");
    }

    /// It has gone to sleep for long, and would not look for so long whether the holder lives.
    #[test]
    fn who_becomes_the_next_is_told_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut clients = Client::queue(&folder, 6);
        let before: Vec<u64> = clients.iter().map(Client::rings).collect();
        let until_told = |clients: &[Client], expected: [u64; 6]| {
            let (mut told, started) = ([0; 6], Instant::now());
            while told != expected {
                assert!(started.elapsed() < PATIENCE, "{told:?}, and not {expected:?}");
                std::thread::sleep(Duration::from_millis(2));
                told = std::array::from_fn(|place| clients[place].rings() - before[place]);
            }
        };
        clients[4].leave();
        clients[1].leave();
        until_told(&clients, [0, 0, 1, 0, 0, 0]);
        // That one is the holder, and the one behind it is the next.
        clients[0].leave();
        until_told(&clients, [0, 0, 2, 1, 0, 0]);
    }
}
