//! [`World`]: the database that stands in the file now, with a connection to it.

use std::{path::Path, time::Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::{
    domain,
    error::{Fault, of_io, unsupported},
    files::Files,
    home::Home,
    presence::{self, Member},
    schema::{self, Found},
    store::patiently,
    verb::{Around, News, Verb},
};

/// So many tokens are minted until the disk has to keep that they were (PR33).
pub(crate) const BLOCK: i64 = 1 << 20;

/// More than there are: each is compiled once.
const STATEMENTS: usize = 64;

/// A database, as long as its file is not replaced and nobody declares its leases void.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) connection: Connection,
    /// Device and inode.
    pub(crate) identity: (u64, u64),
    /// Changes when all leases were declared void.
    epoch: i64,
}

/// How long a transaction waits for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Not at all, and it does not do much either: a caller's own thread is kept by it.
    AtOnce,
    Until(Instant),
}

/// What became of a transaction.
#[derive(Debug)]
pub(crate) enum Begun<T> {
    /// It is in the file.
    Done(T, News),
    /// It is not our world any more. Nothing was done.
    Elsewhere,
    /// There were no tokens; there are now. Nothing was done.
    Again,
}

impl World {
    /// Opens the file, and changes nothing in it: it may be anything.
    ///
    /// # Errors
    /// If it cannot be opened, or is not for us.
    pub(crate) fn connect(files: &Files, give_up: Instant) -> Result<Self, Fault> {
        let path = &files.database;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let identity = files.identity().ok_or_else(|| {
            Fault::Refused(of_io("opening", path, std::io::ErrorKind::NotFound.into()).unsent())
        })?;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // We wait in our own way.
        connection.busy_timeout(std::time::Duration::ZERO)?;
        if connection.is_readonly("main")? {
            return Err(Fault::Refused(read_only(path)));
        }
        patiently(give_up, || schema::look_from_outside(&connection, path))?;
        Ok(Self { connection, identity, epoch: 0 })
    }

    /// Makes the tables if there are none, and makes this process known.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(crate) fn join(&mut self, home: &Home, around: Around<'_>, give_up: Instant) -> Result<News, Fault> {
        let files = around.files;
        patiently(give_up, || use_wal(&self.connection, &files.database))?;
        // Who is here is nothing to anybody after a loss of power; where the tokens of a file begin, is.
        let empty = schema::look_from_outside(&self.connection, &files.database)? == Found::Empty;
        let synchronous = if empty { "FULL" } else { "NORMAL" };
        self.connection.pragma_update(None, "synchronous", synchronous)?;
        let domain = domain::of_this_process()?;
        self.begin(Pace::Until(give_up))?;
        let (epoch, news) = self.ended(self.register(home.member(), around, &domain))?;
        self.epoch = epoch;
        self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        // Not up to now: so the log does not grow for ever by processes that come, write a little, and go.
        self.connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        presence::sweep(&files.processes, |id| id == home.id() || self.knows(id));
        Ok(news)
    }

    /// In a transaction: makes what is missing, voids what is of another boot, buries the dead, and enters this process.
    fn register(&self, me: Member, around: Around<'_>, domain: &str) -> Result<(i64, News), Fault> {
        let files = around.files;
        let path = &files.database;
        if schema::look(&self.connection, path)? == Found::Empty {
            schema::make(&self.connection, domain)?;
        }
        let (theirs, mut epoch) = self.connection.query_row("SELECT domain, epoch FROM meta", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        })?;
        let mut verb = Verb::begin(&self.connection, around)?;
        if theirs != domain {
            // PR32: its times mean nothing here.
            if let Some(member) =
                verb.members()?.iter().find(|member| presence::may_live(&files.processes, member.id))
            {
                return Err(Fault::Refused(another_clock(path, member.id)));
            }
            epoch = verb.void(domain)?;
        }
        for member in verb.members()? {
            if member.id != me.id && presence::is_dead(&files.processes, &member) {
                verb.bury(member.id)?;
            }
        }
        self.connection.execute(
            "INSERT OR REPLACE INTO members VALUES (?1, ?2, ?3, ?4)",
            (me.id, std::process::id(), me.device.cast_signed(), me.inode.cast_signed()),
        )?;
        Ok((epoch, verb.news))
    }

    /// Runs a verb as one transaction.
    ///
    /// # Errors
    /// What went wrong. Nothing was done then.
    pub(crate) fn write<T>(
        &mut self,
        around: Around<'_>,
        verb: &impl Fn(&mut Verb<'_>) -> Result<T, Fault>,
    ) -> Result<Begun<T>, Fault> {
        let pace = around.pace;
        self.begin(pace)?;
        let done = Verb::begin(&self.connection, around).and_then(|mut begun| {
            if begun.epoch != self.epoch {
                return Ok(Begun::Elsewhere);
            }
            if begun.lacks_tokens() {
                return Ok(Begun::Again);
            }
            let value = verb(&mut begun)?;
            Ok(Begun::Done(value, begun.news))
        });
        if matches!(done, Ok(Begun::Done(..))) {
            return self.ended(done);
        }
        self.roll_back();
        if let (Ok(Begun::Again), Pace::Until(_)) = (&done, pace) {
            self.raise_ceiling(pace)?;
        }
        done
    }

    /// Lets the disk keep that more tokens were minted than ever will be until the next time, if it does not yet.
    ///
    /// # Errors
    /// Those of SQLite.
    pub(crate) fn raise_ceiling(&self, pace: Pace) -> Result<(), Fault> {
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        let raised = self.begin(pace).and_then(|()| {
            let raise = "UPDATE meta SET ceiling = CASE WHEN token < ?1 THEN token + ?2 ELSE ?3 END WHERE ceiling <= token";
            let raised = self.connection.execute(raise, (i64::MAX - BLOCK, BLOCK, i64::MAX));
            self.ended(raised.map_err(Fault::from))
        });
        self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        raised.map(|_| ())
    }

    fn begin(&self, pace: Pace) -> Result<(), Fault> {
        let mut begin = self.connection.prepare_cached("BEGIN IMMEDIATE")?;
        let mut begin = || Ok(begin.execute([]).map(|_| ())?);
        match pace {
            Pace::AtOnce => begin(),
            Pace::Until(give_up) => patiently(give_up, begin),
        }
    }

    /// Brings into the file what stands in the log and nobody reads. False if somebody else is doing it.
    ///
    /// # Errors
    /// Those of SQLite.
    pub(crate) fn keep_log(&self) -> Result<bool, Fault> {
        let busy: bool = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0))?;
        Ok(!busy)
    }

    /// Commits what was done, or undoes it all.
    fn ended<T>(&self, done: Result<T, Fault>) -> Result<T, Fault> {
        let committed = done.and_then(|value| {
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(value)
        });
        if committed.is_err() {
            self.roll_back();
        }
        committed
    }

    fn roll_back(&self) {
        // SQLite may have done it by itself; and if it cannot, the connection is not used again.
        let _ = self.connection.execute_batch("ROLLBACK");
    }

    fn knows(&self, member: i64) -> bool {
        // Rather keep a file too many.
        let find = "SELECT 1 FROM members WHERE id = ?1";
        let Ok(mut find) = self.connection.prepare_cached(find) else { return true };
        find.query_row([member], |_| Ok(())).optional().map_or(true, |found| found.is_some())
    }
}

fn use_wal(connection: &Connection, path: &Path) -> Result<(), Fault> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    let why = format!(
        "it has the journal mode `{mode}` and cannot be changed to `wal`; use a path on another file system"
    );
    Err(Fault::Refused(unsupported(path, &why)))
}

fn read_only(path: &Path) -> lock_core::BackendError {
    of_io("writing to", path, std::io::ErrorKind::ReadOnlyFilesystem.into()).unsent()
}

fn another_clock(path: &Path, member: i64) -> lock_core::BackendError {
    let why = format!(
        "it is in use by processes with another clock (a container with a time of its own, a virtual machine): {member:016x} \
         lives; use a file for each, or end them"
    );
    unsupported(path, &why)
}
