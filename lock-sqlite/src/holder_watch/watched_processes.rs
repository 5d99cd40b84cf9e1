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
