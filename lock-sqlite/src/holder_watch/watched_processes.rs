//! [`WatchedProcesses`]: the processes that are watched for the waiters of this one, and how often.

use std::time::Duration;

use lock_core::LockName;
use rusqlite::Connection;

use crate::{error::Failure, process_lock::Member, transaction::member};

/// How often holders are looked at if the next waiter is in this process (PR34).
pub(crate) const NEXT: Duration = Duration::from_millis(25);

/// The same with one process ahead, which looks by itself, but may be stopped, or die with the holder.
pub(crate) const BEHIND: Duration = Duration::from_millis(75);

/// The same with more processes ahead, of which two would have to die: at first as often as with one, then less and less often while the
/// queue does not change, down to this. So a hundred waiting processes cost no more than a few.
pub(crate) const FAR: Duration = Duration::from_secs(2);

/// How many waiting processes look often. The processes behind them watch these, too.
const WATCHERS: usize = 2;

/// The processes of at most this many waiters are read. If all of them belong to few processes, this process may be among those that look
/// often.
const FEW: usize = 16;

/// The processes ahead of the waiters of this one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WatchedProcesses {
    /// The holders, and the first waiters ahead of ours. Never this process.
    pub(crate) members: Vec<Member>,
    /// The number of other processes that wait ahead of ours, in the queue with the fewest, as far as it was read.
    ahead: usize,
}

impl WatchedProcesses {
    /// For a process without waiters.
    pub(crate) fn nobody() -> Self {
        Self { members: Vec::new(), ahead: WATCHERS }
    }

    /// For a process that has read nothing yet, so that one of its waiters may be the next.
    pub(crate) fn at_the_front() -> Self {
        Self { members: Vec::new(), ahead: 0 }
    }

    /// How long until the next look, after this many looks without a change.
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
            // Without a known lock file, it is unknown whether a process is alive.
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
