//! [`Queue`]: the live entries of a name, as a transaction sees them. Who is admitted is decided by `lock_core::admission`.

use lock_core::{BackendError, BackendErrorKind, Claim, Entry, EntryId, Kind, LockName, QueueRow, admission};
use rusqlite::types::ValueRef;

use crate::{
    error::{Fault, STORE},
    store::nanos,
    verb::Verb,
};

/// How much of a queue is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    All,
    /// From the front to the first who lives and does not fit: all that a departure can concern.
    Head,
}

/// Live entries, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Queue {
    name: LockName,
    pub(crate) rows: Vec<Row>,
}

/// An entry as it stands in the file.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) token: i64,
    pub(crate) entry: EntryId,
    pub(crate) claim: Claim,
    pub(crate) expires: i64,
    pub(crate) admitted: bool,
    pub(crate) member: i64,
    pub(crate) label: Option<String>,
}

const ROWS: &str = "SELECT token, entry, kind, permits, size, expires, admitted, member, label FROM entries WHERE name = ?1 ORDER BY token";

impl Queue {
    /// Reads a queue, and drops the dead of what is read.
    ///
    /// # Errors
    /// Those of SQLite, and if a row is none that we wrote.
    pub(crate) fn load(verb: &Verb<'_>, name: &LockName, part: Part) -> Result<Self, Fault> {
        let (mut queue, mut dead) = (Self { name: name.clone(), rows: Vec::new() }, Vec::new());
        let mut ahead = 0;
        let mut select = verb.connection.prepare_cached(ROWS)?;
        let mut rows = select.query([name.as_str()])?;
        while let Some(found) = rows.next()? {
            let row = Row::read(found)?;
            if row.expires <= verb.now {
                dead.push(row.token);
                continue;
            }
            let fits = admission::fits(ahead, row.claim);
            ahead += u64::from(row.claim.permits());
            queue.rows.push(row);
            if part == Part::Head && !fits {
                break;
            }
        }
        for token in dead {
            queue.delete(verb, token)?;
        }
        Ok(queue)
    }

    pub(crate) fn find(&self, entry: EntryId) -> Option<usize> {
        self.rows.iter().position(|row| row.entry == entry)
    }

    /// What everybody in the queue agrees about, if it is not what this claim says.
    pub(crate) fn disagrees(&self, claim: Claim) -> Option<Claim> {
        self.rows.first().map(|row| row.claim).filter(|found| !found.agrees_with(&claim))
    }

    /// Whether one more entry would be admitted at once.
    pub(crate) fn has_room(&self, claim: Claim) -> bool {
        admission::fits(self.rows.iter().map(|row| u64::from(row.claim.permits())).sum(), claim)
    }

    /// Puts an entry behind all others, and says where.
    ///
    /// # Errors
    /// If there are no tokens left, or those of SQLite.
    pub(crate) fn push(&mut self, verb: &mut Verb<'_>, entry: &Entry) -> Result<usize, Fault> {
        let row = Row {
            token: verb.mint()?,
            entry: entry.id,
            claim: entry.claim,
            expires: verb.now.saturating_add(nanos(entry.ttl)),
            admitted: self.has_room(entry.claim),
            member: verb.me,
            label: entry.label.clone(),
        };
        let mut insert = verb
            .connection
            .prepare_cached("INSERT INTO entries VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
        insert.execute((
            entry.name.as_str(),
            row.token,
            entry.id.to_string(),
            kind_text(entry.claim.kind()),
            entry.claim.permits(),
            entry.claim.limit(),
            row.expires,
            row.admitted,
            row.member,
            entry.label.as_deref(),
        ))?;
        self.rows.push(row);
        Ok(self.rows.len() - 1)
    }

    /// Extends a lease, and never shortens it (PR04).
    ///
    /// # Errors
    /// Those of SQLite.
    pub(crate) fn refresh(&mut self, verb: &Verb<'_>, place: usize, expires: i64) -> Result<(), Fault> {
        let row = &mut self.rows[place];
        if expires > row.expires {
            row.expires = expires;
            let mut update = verb
                .connection
                .prepare_cached("UPDATE entries SET expires = ?3 WHERE name = ?1 AND token = ?2")?;
            update.execute((self.name.as_str(), row.token, expires))?;
        }
        Ok(())
    }

    /// # Errors
    /// Those of SQLite.
    pub(crate) fn delete(&self, verb: &Verb<'_>, token: i64) -> Result<(), Fault> {
        let mut delete =
            verb.connection.prepare_cached("DELETE FROM entries WHERE name = ?1 AND token = ?2")?;
        delete.execute((self.name.as_str(), token))?;
        Ok(())
    }

    /// The end of every verb: admits all who now fit, and sees to it that each of them is told (PR11). But for one, who is
    /// being answered.
    ///
    /// # Errors
    /// Those of SQLite.
    pub(crate) fn settle(&mut self, verb: &mut Verb<'_>, answered: Option<EntryId>) -> Result<(), Fault> {
        let admitted = admission::admitted(self.rows.iter().map(|row| row.claim));
        for row in self.rows[..admitted].iter_mut().filter(|row| !row.admitted) {
            row.admitted = true;
            let mut update = verb
                .connection
                .prepare_cached("UPDATE entries SET admitted = 1 WHERE name = ?1 AND token = ?2")?;
            update.execute((self.name.as_str(), row.token))?;
            if answered != Some(row.entry) {
                verb.admits(row.member, row.entry, row.token);
            }
        }
        Ok(())
    }

    /// The clients of those who hold the lock.
    pub(crate) fn holders(&self) -> Vec<i64> {
        let mut members: Vec<i64> =
            self.rows.iter().filter(|row| row.admitted).map(|row| row.member).collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    /// For people. Nothing is changed.
    pub(crate) fn shown(&self, now: i64) -> Vec<QueueRow> {
        let row = |row: &Row| QueueRow {
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

impl Row {
    fn read(row: &rusqlite::Row<'_>) -> Result<Self, Fault> {
        let text = |column| match row.get_ref(column)? {
            ValueRef::Text(text) => Ok(std::str::from_utf8(text).unwrap_or_default()),
            _ => Ok::<_, rusqlite::Error>(""),
        };
        let entry = text(1)?.parse().map_err(|_| damaged("an entry id"))?;
        let (permits, limit) = (row.get(3)?, row.get(4)?);
        Ok(Self {
            token: row.get(0)?,
            entry,
            claim: claim(text(2)?, permits, limit).ok_or_else(|| damaged("a claim"))?,
            expires: row.get(5)?,
            admitted: row.get(6)?,
            member: row.get(7)?,
            label: row.get(8)?,
        })
    }
}

fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Mutex => "mutex",
        Kind::RwLock => "rwlock",
        Kind::Semaphore => "semaphore",
    }
}

fn claim(kind: &str, permits: u32, limit: u32) -> Option<Claim> {
    let claim = match kind {
        "mutex" => Claim::mutex(),
        "rwlock" if permits == Claim::MAX => Claim::writer(),
        "rwlock" => Claim::reader(),
        "semaphore" => Claim::semaphore(permits, limit).ok()?,
        _ => return None,
    };
    ((claim.permits(), claim.limit()) == (permits, limit)).then_some(claim)
}

/// # Errors
/// If it is no name.
pub(crate) fn lock_name(name: &str) -> Result<LockName, Fault> {
    LockName::new(name).map_err(|_| damaged("a name"))
}

fn damaged(what: &str) -> Fault {
    let message = format!("{what} in the file is none that this library wrote; see what else writes to it");
    Fault::Refused(BackendError::new(STORE, BackendErrorKind::Protocol, message))
}
