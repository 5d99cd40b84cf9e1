//! [`WatchedProcesses`]: the processes that are watched for the waiters of this one, and how often.

use std::time::Duration;

use lock_core::LockName;
use rusqlite::Connection;

use crate::{error::Failure, process_lock::Member, transaction::member};

/// How often holders are looked at if the next waiter is in this process (PR34).
pub(crate) const NEXT: Duration = Duration::from_millis(25);

/// The same with one process ahead, which looks for itself: it may be stopped, or die with the holder.
pub(crate) const BEHIND: Duration = Duration::from_millis(75);

/// The same with more processes ahead, of which two would have to die: at first as often, then ever more seldom while the queue stands
/// still, down to this. So a hundred waiting processes cost no more than a few.
pub(crate) const FAR: Duration = Duration::from_secs(2);

/// So many waiting processes look often. Those behind them watch these, too.
const WATCHERS: usize = 2;

/// The processes of at most so many waiters are read. If all of them belong to few processes, this one may be among those that look often.
const FEW: usize = 16;

/// The processes ahead of the waiters of this one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WatchedProcesses {
    /// The holders, and the first waiters ahead of ours. Never this process.
    pub(crate) members: Vec<Member>,
    /// How many other processes wait ahead of ours, in the queue with the fewest, as far as it was read.
    ahead: usize,
}

impl WatchedProcesses {
    /// Nothing is waited for.
    pub(crate) fn nobody() -> Self {
        Self { members: Vec::new(), ahead: WATCHERS }
    }

    /// A waiter of ours may be the next: nothing was read yet.
    pub(crate) fn at_the_front() -> Self {
        Self { members: Vec::new(), ahead: 0 }
    }

    /// How long until the next look, after so many looks without a change.
    pub(crate) fn pause(&self, looks: u32) -> Duration {
        match self.ahead {
            0 => NEXT,
            1 => BEHIND,
            _ => (BEHIND * (1_u32 << looks.min(8))).min(FAR),
        }
    }

    /// Adds the queue of one more name.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn add(&mut self, connection: &Connection, name: &LockName, me: i64) -> Result<(), Failure> {
        let mut select = connection.prepare_cached(
            "SELECT members.id, device, inode, admitted, member FROM entries LEFT JOIN members ON members.id = member
             WHERE name = ?1 ORDER BY token",
        )?;
        let mut rows = select.query([name.as_str()])?;
        let (mut ahead, mut waiting) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            let id = row.get::<_, i64>(4)?;
            // Admitted entries come first.
            if !row.get::<_, bool>(3)? {
                waiting += 1;
                if id == me || waiting > FEW {
                    break;
                }
                if !ahead.contains(&id) {
                    ahead.push(id);
                }
            }
            // Without a known file, nobody can tell whether a process lives.
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
