//! [`Transaction`]: an open transaction, with one reading of the clock by which it judges every lease.

use std::time::Instant;

use lock_core::{BackendError, BackendErrorKind, EntryId, FencingToken, Tombstones};
use rusqlite::Connection;

use crate::{
    clock::now,
    error::{Failure, STORE},
    files::Files,
    notify::{message::Message, notifier::Notifier},
    process_folder::ProcessFolder,
    process_lock::{self, Member},
    random,
    schema::since_1970,
};

/// How long a transaction may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// It does not wait, and does little: it runs on a caller's thread.
    Immediate,
    Until(Instant),
}

/// What an operation sees and changes. Other connections see nothing of it until it is committed.
#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    pub(crate) connection: &'a Connection,
    /// The time, read when no other process can write any more, and only once: an entry that is dead by it is dead for the whole operation
    /// (PR06).
    pub(crate) now: i64,
    pub(crate) me: i64,
    pub(crate) epoch: i64,
    token: i64,
    ceiling: i64,
    folder: &'a ProcessFolder,
    budget: Budget,
    pub(crate) notifier: &'a Notifier,
    pub(crate) tombstones: &'a mut Tombstones,
    pub(crate) effects: Effects,
}

/// How many rows may be read on the thread of a caller: that takes some ten microseconds.
const FEW: usize = 32;

/// What an operation needs in addition to the database.
#[derive(Debug)]
pub(crate) struct TransactionContext<'a> {
    /// The process that runs the operation.
    pub(crate) me: i64,
    pub(crate) files: &'a Files,
    /// The folder with the lock files of all processes.
    pub(crate) folder: &'a ProcessFolder,
    pub(crate) notifier: &'a Notifier,
    pub(crate) tombstones: &'a mut Tombstones,
    pub(crate) budget: Budget,
}

/// What has to be done once a transaction is committed.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Messages, each with the process that it is for.
    pub(crate) messages: Vec<(i64, Message)>,
    /// Dead processes whose files have to be removed.
    pub(crate) reaped: Vec<i64>,
}

impl Effects {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.reaped.is_empty()
    }
}

impl<'a> Transaction<'a> {
    /// Reads the clock and the state of the tokens.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn begin(
        connection: &'a Connection,
        context: TransactionContext<'a>,
    ) -> Result<Self, Failure> {
        let mut meta = connection.prepare_cached("SELECT epoch, token, ceiling FROM meta")?;
        let (epoch, token, ceiling) =
            meta.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let TransactionContext { me, folder, notifier, tombstones, budget, .. } = context;
        let effects = Effects::default();
        Ok(Self {
            connection,
            now: now(),
            me,
            epoch,
            token,
            ceiling,
            folder,
            budget,
            notifier,
            tombstones,
            effects,
        })
    }

    /// # Errors
    /// If this number of rows or checks is more than a caller has time for.
    pub(crate) fn has_time_for(&self, number: usize) -> Result<(), Failure> {
        if self.budget == Budget::Immediate && number > FEW { Err(Failure::TakesTime) } else { Ok(()) }
    }

    /// # Errors
    /// If a caller has no time for work that may take long.
    pub(crate) fn has_time_for_more(&self) -> Result<(), Failure> {
        if self.budget == Budget::Immediate { Err(Failure::TakesTime) } else { Ok(()) }
    }

    /// Whether the operation may mint a token above the ceiling that is on the disk.
    pub(crate) fn lacks_tokens(&self) -> bool {
        self.token >= self.ceiling && self.ceiling < i64::MAX
    }

    /// The next token.
    ///
    /// # Errors
    /// If there are no tokens left, or an error of SQLite.
    pub(crate) fn mint(&mut self) -> Result<i64, Failure> {
        let exhausted = || {
            let kind = BackendErrorKind::TokensExhausted;
            Failure::Refused(BackendError::new(STORE, kind, "the file has no tokens left"))
        };
        self.token = self.token.checked_add(1).ok_or_else(exhausted)?;
        self.connection.prepare_cached("UPDATE meta SET token = ?1")?.execute([self.token])?;
        Ok(self.token)
    }

    /// Does not raise the ceiling on the disk: see [`Database::raise_ceiling`](crate::database::Database::raise_ceiling).
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn raise_tokens(&mut self, last: FencingToken) -> Result<(), Failure> {
        // The largest possible token.
        let last = i64::try_from(last.get()).unwrap_or(i64::MAX);
        self.connection.execute("UPDATE meta SET token = max(token, ?1)", [last])?;
        Ok(())
    }

    /// Continues above all tokens that may have been minted in a lost log.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn skip_tokens(&mut self) -> Result<(), Failure> {
        // At the very end there are no tokens left to skip.
        let skip = "UPDATE meta SET token = CASE WHEN token <= ?1 THEN ?1 ELSE max(token, ceiling) END WHERE ceiling < ?2";
        self.connection.execute(skip, [since_1970(), i64::MAX])?;
        Ok(())
    }

    /// Adds a message to a process that its entry was admitted.
    pub(crate) fn notify_admitted(&mut self, member: i64, entry: EntryId, token: i64) {
        self.effects
            .messages
            .push((member, Message::Admitted(entry, FencingToken::new(token.cast_unsigned()))));
    }

    /// Adds a message to a process that its entry is the first waiter. A process that gets a message of an admission looks anyway.
    pub(crate) fn notify_next(&mut self, member: i64, entry: EntryId) {
        if !self.effects.messages.iter().any(|(messages, _)| *messages == member) {
            self.effects.messages.push((member, Message::Next(entry)));
        }
    }

    /// All registered processes.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn members(&self) -> Result<Vec<Member>, Failure> {
        let mut all = self.connection.prepare_cached("SELECT id, device, inode FROM members")?;
        let members = all.query_map([], member)?;
        Ok(members.collect::<Result<_, _>>()?)
    }

    /// Whether a registered process is dead.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn is_dead(&self, id: i64) -> Result<bool, Failure> {
        let mut find =
            self.connection.prepare_cached("SELECT id, device, inode FROM members WHERE id = ?1")?;
        let found = find.query_map([id], member)?.next().transpose()?;
        Ok(found.is_some_and(|member| process_lock::is_dead(self.folder, &member)))
    }

    /// Takes over the entries of this process under its former id, whose lock file is gone.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn inherit(&self, former: i64) -> Result<(), Failure> {
        self.connection.execute("UPDATE entries SET member = ?2 WHERE member = ?1", (former, self.me))?;
        self.connection.execute("DELETE FROM members WHERE id = ?1", [former])?;
        Ok(())
    }

    /// Voids all leases, which were counted on another clock, and continues above every token that may have been minted there. Returns the
    /// new epoch.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn void(&mut self, domain: &str) -> Result<i64, Failure> {
        self.connection.execute_batch("DELETE FROM entries; DELETE FROM members")?;
        self.epoch = random::number().map_err(|error| {
            Failure::Refused(crate::error::of_io("drawing a number, for", self.folder.path(), error).unsent())
        })?;
        self.token = self.ceiling;
        let void = "UPDATE meta SET domain = ?1, epoch = ?2, token = ceiling";
        self.connection.execute(void, (domain, self.epoch))?;
        Ok(self.epoch)
    }
}

pub(crate) fn member(row: &rusqlite::Row<'_>) -> rusqlite::Result<Member> {
    let number = |column| row.get(column).map(i64::cast_unsigned);
    Ok(Member { id: row.get(0)?, device: number(1)?, inode: number(2)? })
}
