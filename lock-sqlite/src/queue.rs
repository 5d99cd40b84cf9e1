//! [`Queue`]: the live entries of a name, as a transaction sees them. `lock_core::admission` decides which are admitted.

use lock_core::{Claim, Entry, EntryId, LockName, QueueRow, admission};

use crate::{
    clock::nanos,
    entry_row::{EntryRow, read_claim},
    error::Failure,
    transaction::Transaction,
};

/// How much of a queue to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The whole queue, to show it.
    All,
    /// From the front to the first live entry that does not fit: all entries that an operation can change or depend on.
    Head,
}

/// Live entries, in the order of the queue.
#[derive(Debug)]
pub(crate) struct Queue {
    name: LockName,
    /// The front of the queue, and after it one entry further back, if the operation is about that entry.
    pub(crate) rows: Vec<EntryRow>,
    /// How many of the rows are the front.
    front: usize,
    /// Whether there are more entries behind the front.
    goes_on: bool,
    /// Whether the first waiter may have changed.
    moved: bool,
}

/// The entries ahead of a waiter.
#[derive(Debug)]
pub(crate) struct Predecessors {
    pub(crate) number: u64,
    /// The earliest end of a lease that blocks the waiter (PR15).
    pub(crate) first_expiry: Option<i64>,
}

const FRONT: &str = "SELECT token, entry, kind, permits, size, expires, admitted, member, label FROM entries WHERE name = ?1 ORDER BY token";
const BY_TOKEN: &str = "SELECT token, entry, kind, permits, size, expires, admitted, member, label FROM entries WHERE name = ?1 AND token = ?2";
const BY_ENTRY: &str = "SELECT token, entry, kind, permits, size, expires, admitted, member, label FROM entries WHERE name = ?1 AND token > ?2 AND entry = ?3 LIMIT 1";
const NUMBER: &str = "SELECT count(*) FROM entries WHERE name = ?1 AND token < ?2 AND expires > ?3";
const NEAREST: &str = "SELECT kind, permits, size, expires FROM entries WHERE name = ?1 AND token < ?2 AND expires > ?3 ORDER BY token DESC";

impl Queue {
    /// Reads a queue, and deletes entries whose leases ended.
    ///
    /// # Errors
    /// An error of SQLite, or a row that this library did not write.
    pub(crate) fn load(
        transaction: &Transaction<'_>,
        name: &LockName,
        scope: Scope,
    ) -> Result<Self, Failure> {
        let mut queue = Self { name: name.clone(), rows: Vec::new(), front: 0, goes_on: false, moved: false };
        let (mut ahead, mut dead) = (0, Vec::new());
        {
            let mut select = transaction.connection.prepare_cached(FRONT)?;
            let mut rows = select.query([name.as_str()])?;
            while let Some(found) = rows.next()? {
                transaction.has_time_for(queue.rows.len() + dead.len())?;
                let row = EntryRow::read(found)?;
                if row.expires <= transaction.now {
                    dead.push(row.token);
                    continue;
                }
                let fits = admission::fits(ahead, row.claim);
                ahead += u64::from(row.claim.permits());
                queue.rows.push(row);
                if scope == Scope::Head && !fits {
                    queue.goes_on = true;
                    break;
                }
            }
        }
        queue.front = queue.rows.len();
        queue.moved = !dead.is_empty();
        for token in dead {
            queue.delete(transaction, token)?;
        }
        Ok(queue)
    }

    /// The index of the entry with this token. If its lease has ended, this deletes the entry.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn find_token(
        &mut self,
        transaction: &Transaction<'_>,
        token: i64,
    ) -> Result<Option<usize>, Failure> {
        match self.rows.iter().position(|row| row.token == token) {
            None if self.goes_on => {
                self.find_behind(transaction, BY_TOKEN, (self.name.clone().as_str(), token))
            }
            index => Ok(index),
        }
    }

    /// The same for the entry with this id.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn find(
        &mut self,
        transaction: &Transaction<'_>,
        entry: EntryId,
    ) -> Result<Option<usize>, Failure> {
        match self.rows.iter().position(|row| row.entry == entry) {
            None if self.goes_on => {
                let last = self.rows.last().map_or(0, |row| row.token);
                self.find_behind(transaction, BY_ENTRY, (self.name.clone().as_str(), last, entry.to_string()))
            }
            index => Ok(index),
        }
    }

    fn find_behind(
        &mut self,
        transaction: &Transaction<'_>,
        query: &str,
        by: impl rusqlite::Params,
    ) -> Result<Option<usize>, Failure> {
        let found = {
            let mut select = transaction.connection.prepare_cached(query)?;
            select.query(by)?.next()?.map(EntryRow::read).transpose()?
        };
        let Some(row) = found else { return Ok(None) };
        // PR06.
        if row.expires <= transaction.now {
            self.delete(transaction, row.token)?;
            return Ok(None);
        }
        self.rows.push(row);
        Ok(Some(self.rows.len() - 1))
    }

    /// The entries ahead of a waiter, and the first end of a lease that it waits for.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn ahead(&self, transaction: &Transaction<'_>, index: usize) -> Result<Predecessors, Failure> {
        let me = &self.rows[index];
        if index < self.front {
            let ahead = &self.rows[..index];
            let claims = ahead.iter().rev().map(|row| row.claim);
            let blockers = admission::blockers(me.claim, claims).unwrap_or(index);
            let first_expiry = ahead.iter().rev().take(blockers).map(|row| row.expires).min();
            return Ok(Predecessors { number: index as u64, first_expiry });
        }
        let me_in_it = (self.name.as_str(), me.token, transaction.now);
        let number: i64 =
            transaction.connection.prepare_cached(NUMBER)?.query_row(me_in_it, |row| row.get(0))?;
        let mut select = transaction.connection.prepare_cached(NEAREST)?;
        let mut rows = select.query(me_in_it)?;
        let (mut nearest, mut first_expiry) = (0, None);
        while let Some(row) = rows.next()? {
            let (claim, expires) = (read_claim(row, 0)?, row.get::<_, i64>(3)?);
            nearest += u64::from(claim.permits());
            first_expiry = Some(first_expiry.map_or(expires, |first: i64| first.min(expires)));
            if !admission::fits(nearest, me.claim) {
                break;
            }
        }
        Ok(Predecessors { number: number.unsigned_abs(), first_expiry })
    }

    /// The claim of the queue, if the given claim conflicts with it.
    pub(crate) fn conflicting_claim(&self, claim: Claim) -> Option<Claim> {
        self.rows.first().map(|row| row.claim).filter(|found| !found.agrees_with(&claim))
    }

    /// Whether this is the first waiter.
    pub(crate) fn is_next(&self, index: usize) -> bool {
        self.rows.iter().position(|row| !row.admitted) == Some(index)
    }

    /// Records that an entry has left that was, or may have been, ahead of others.
    pub(crate) fn mark_moved(&mut self) {
        self.moved = true;
    }

    /// Whether there is no other entry.
    pub(crate) fn is_only_entry(&self) -> bool {
        self.rows.len() == 1 && !self.goes_on
    }

    /// Whether one more entry would be admitted immediately.
    pub(crate) fn has_room(&self, claim: Claim) -> bool {
        admission::fits(self.rows.iter().map(|row| u64::from(row.claim.permits())).sum(), claim)
    }

    /// Appends an entry, and returns its index.
    ///
    /// # Errors
    /// If there are no tokens left, or an error of SQLite.
    pub(crate) fn push(
        &mut self,
        transaction: &mut Transaction<'_>,
        entry: &Entry,
    ) -> Result<usize, Failure> {
        let row = EntryRow {
            token: transaction.mint()?,
            entry: entry.id,
            claim: entry.claim,
            expires: transaction.now.saturating_add(nanos(entry.ttl)),
            admitted: self.has_room(entry.claim),
            member: transaction.me,
            label: entry.label.clone(),
        };
        let mut insert = transaction
            .connection
            .prepare_cached("INSERT INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
        insert.execute((
            entry.name.as_str(),
            row.token,
            entry.id.to_string(),
            entry.claim.kind().word(),
            entry.claim.permits(),
            entry.claim.limit(),
            row.expires,
            row.admitted,
            row.member,
            entry.label.as_deref(),
        ))?;
        self.rows.push(row);
        if !self.goes_on {
            self.front = self.rows.len();
        }
        Ok(self.rows.len() - 1)
    }

    /// Extends a lease, and never shortens it (PR04).
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn refresh(
        &mut self,
        transaction: &Transaction<'_>,
        index: usize,
        expires: i64,
    ) -> Result<(), Failure> {
        let row = &mut self.rows[index];
        if expires > row.expires {
            row.expires = expires;
            let mut update = transaction
                .connection
                .prepare_cached("UPDATE entries SET expires = ?3 WHERE name = ?1 AND token = ?2")?;
            update.execute((self.name.as_str(), row.token, expires))?;
        }
        Ok(())
    }

    /// # Errors
    /// An error of SQLite.
    pub(crate) fn delete(&self, transaction: &Transaction<'_>, token: i64) -> Result<(), Failure> {
        let mut delete =
            transaction.connection.prepare_cached("DELETE FROM entries WHERE name = ?1 AND token = ?2")?;
        delete.execute((self.name.as_str(), token))?;
        Ok(())
    }

    /// The end of every operation: admits all entries that now fit, and adds a message to each (PR11), except to the entry that gets the
    /// answer. Then adds a message to the first waiter that it is the next, if it may not have been before.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn settle(
        &mut self,
        transaction: &mut Transaction<'_>,
        answered: Option<EntryId>,
    ) -> Result<(), Failure> {
        let admitted = admission::admitted(self.rows.iter().map(|row| row.claim));
        for row in self.rows[..admitted].iter_mut().filter(|row| !row.admitted) {
            row.admitted = true;
            let mut update = transaction
                .connection
                .prepare_cached("UPDATE entries SET admitted = 1 WHERE name = ?1 AND token = ?2")?;
            update.execute((self.name.as_str(), row.token))?;
            if answered != Some(row.entry) {
                transaction.notify_admitted(row.member, row.entry, row.token);
            }
            self.moved = true;
        }
        if let Some(next) = self.rows.get(admitted).filter(|_| self.moved) {
            transaction.notify_next(next.member, next.entry);
        }
        self.moved = false;
        Ok(())
    }

    /// The processes of the holders.
    pub(crate) fn holders(&self) -> Vec<i64> {
        let mut members: Vec<i64> =
            self.rows.iter().filter(|row| row.admitted).map(|row| row.member).collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    /// The rows to show the queue. Changes nothing.
    pub(crate) fn to_queue_rows(&self, now: i64) -> Vec<QueueRow> {
        let row = |row: &EntryRow| QueueRow {
            entry: Some(row.entry),
            claim: row.claim,
            admitted: row.admitted,
            token: Some(lock_core::FencingToken::new(row.token.cast_unsigned())),
            lease_left: Some(std::time::Duration::from_nanos((row.expires - now).unsigned_abs())),
            label: row.label.clone(),
        };
        self.rows.iter().map(row).collect()
    }
}

/// # Errors
/// If this is not a valid name.
pub(crate) fn lock_name(name: &str) -> Result<LockName, Failure> {
    LockName::new(name).map_err(|_| Failure::Damaged("a name"))
}
