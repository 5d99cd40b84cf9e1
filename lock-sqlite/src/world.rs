//! [`World`]: the database that stands in the file now, with a connection to it.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension};

use crate::{
    beside::{self, Beside, Identity, Opened},
    connection, domain,
    error::{Fault, of_io, unsupported},
    files::Files,
    home::Home,
    limit::Limit,
    presence::{self, Member},
    schema::{self, Found},
    store::patiently,
    verb::{Around, News, Verb},
};

/// So many tokens are minted until the disk has to keep that they were (PR33).
pub(crate) const BLOCK: i64 = 1 << 20;

/// A caller's own thread is kept for no longer by what stands in the file.
const MOMENT: Duration = Duration::from_millis(20);

/// More than there are: each is compiled once.
const STATEMENTS: usize = 64;

/// A database, as long as its file is not replaced and nobody declares its leases void.
#[derive(Debug)]
pub(crate) struct World {
    /// It is closed before the others are dropped.
    pub(crate) connection: Connection,
    pub(crate) limit: Limit,
    identity: Identity,
    /// What stood beside the file before it was opened.
    found: Beside,
    /// None until this process has joined.
    opened: Option<Opened>,
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
        let identity = files.identity().ok_or_else(|| {
            Fault::Refused(of_io("opening", path, std::io::ErrorKind::NotFound.into()).unsent())
        })?;
        beside::refuse_other_names(path)?;
        beside::wait_for_others(files, give_up)?;
        let found = Beside::of(files);
        let connection = connection::open(path)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let limit = Limit::on(&connection)?;
        limit.set(give_up);
        if connection.is_readonly("main")? {
            return Err(Fault::Refused(read_only(path)));
        }
        patiently(give_up, || schema::look_from_outside(&connection, path))?;
        Ok(Self { connection, limit, identity, found, opened: None, epoch: 0 })
    }

    /// Whether the file, and what belongs to it, stand where they were opened.
    pub(crate) fn is_in_place(&self, files: &Files) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.is_in_place(files))
    }

    /// Whether it is the file that stands there now.
    pub(crate) fn is_of(&self, files: &Files) -> bool {
        files.identity() == Some(self.identity)
    }

    pub(crate) fn opened(&self) -> Option<&Opened> {
        self.opened.as_ref()
    }

    /// Makes the tables if there are none, and makes this process known: in place of the `former`, if that was this process, too, and
    /// nobody can see any more that it lives.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(crate) fn join(
        &mut self,
        home: &Home,
        former: Option<i64>,
        around: Around<'_>,
        give_up: Instant,
    ) -> Result<News, Fault> {
        let (files, folder) = (around.files, around.folder);
        patiently(give_up, || use_wal(&self.connection, &files.database))?;
        // Who is here is nothing to anybody after a loss of power; where the tokens of a file begin, is.
        let empty = schema::look_from_outside(&self.connection, &files.database)? == Found::Empty;
        self.opened = Some(Opened::take(self.identity, files)?);
        files.share().map_err(Fault::Refused)?;
        let synchronous = if empty { "FULL" } else { "NORMAL" };
        self.connection.pragma_update(None, "synchronous", synchronous)?;
        let domain = domain::of_this_process()?;
        self.begin(Pace::Until(give_up))?;
        let (epoch, news) = self.ended(self.register(home.member(), former, around, &domain))?;
        self.epoch = epoch;
        self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        // Not up to now: so the log does not grow for ever by processes that come, write a little, and go.
        self.connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        presence::sweep(folder, |id| id == home.id() || self.knows(id));
        Ok(news)
    }

    /// In a transaction: makes what is missing, voids what is of another boot, buries the dead, and enters this process.
    fn register(
        &self,
        me: Member,
        former: Option<i64>,
        around: Around<'_>,
        domain: &str,
    ) -> Result<(i64, News), Fault> {
        let (path, folder) = (&around.files.database, around.folder);
        if schema::look(&self.connection, path)? == Found::Empty {
            schema::make(&self.connection, domain)?;
        }
        let (theirs, mut epoch) = self.connection.query_row("SELECT domain, epoch FROM meta", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        })?;
        let mut verb = Verb::begin(&self.connection, around)?;
        if theirs != domain {
            // PR32: its times mean nothing here.
            if let Some(member) = verb.members()?.iter().find(|member| presence::may_live(folder, member.id))
            {
                return Err(Fault::Refused(another_clock(path, member.id)));
            }
            epoch = verb.void(domain)?;
        }
        if self.begins_a_log() {
            verb.skip_tokens()?;
        }
        if let Some(former) = former {
            verb.inherit(former)?;
        }
        for member in verb.members()? {
            if member.id != me.id && presence::is_dead(folder, &member) {
                verb.bury(member.id)?;
            }
        }
        self.connection.execute(
            "INSERT OR REPLACE INTO members VALUES (?1, ?2, ?3, ?4)",
            (me.id, std::process::id(), me.device.cast_signed(), me.inode.cast_signed()),
        )?;
        Ok((epoch, verb.news))
    }

    /// Whether nobody knows what stood in a log that was there before: it was brought into the file, or somebody deleted it.
    fn begins_a_log(&self) -> bool {
        let log = self.opened.as_ref().and_then(|opened| opened.beside().log);
        self.found.log.is_none() || self.found.log != log
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
        let mut begin = || -> Result<(), Fault> {
            begin.execute([])?;
            Ok(())
        };
        let end = match pace {
            Pace::AtOnce => begin().map(|()| Instant::now() + MOMENT),
            Pace::Until(give_up) => patiently(give_up, begin).map(|()| give_up),
        };
        self.limit.set(end?);
        Ok(())
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
        self.limit.lift();
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
        self.limit.lift();
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
    let mode = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, String>(0));
    if mode("PRAGMA journal_mode")? != "wal" {
        // It is empty. Whoever comes at this moment is to find no journal beside it.
        mode("PRAGMA journal_mode = MEMORY")?;
    }
    let mode = mode("PRAGMA journal_mode = WAL")?;
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
