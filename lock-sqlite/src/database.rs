//! [`Database`]: the database that has the path now, and a connection to it.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension};

use crate::{
    clock_domain, connection,
    error::{Failure, of_io, unsupported},
    file_id::FileId,
    files::Files,
    process_files::ProcessFiles,
    process_lock::{self, Member},
    reap::reap,
    retry,
    schema::{self, DatabaseState, TOKEN_BLOCK},
    time_limit::TimeLimit,
    transaction::{Budget, Effects, Transaction, TransactionContext},
    wal_files::{self, OpenFiles, WalFiles},
};

/// A transaction on a caller's thread takes no longer than this, whatever is in the file.
const MOMENT: Duration = Duration::from_millis(20);

/// A process that joins moves the log into the file if the log has more pages than this, instead of SQLite's default of 1 000. The first
/// process on a file reads the whole log, so its length is a part of what a start of the command costs.
const LOG_PAGES_AT_JOIN: i64 = 200;

/// More than the number of our statements, so that each is compiled once.
const STATEMENTS: usize = 64;

/// A database, until its file is replaced or its leases are declared void.
#[derive(Debug)]
pub(crate) struct Database {
    /// Closed before the other fields are dropped.
    pub(crate) connection: Connection,
    pub(crate) limit: TimeLimit,
    identity: FileId,
    /// The files that were beside the database before it was opened.
    found: WalFiles,
    /// None until this process has joined.
    opened: Option<OpenFiles>,
    /// Changes when all leases are declared void.
    epoch: i64,
}

/// The outcome of a transaction.
#[derive(Debug)]
pub(crate) enum Outcome<T> {
    /// The transaction is committed.
    Committed(T, Effects),
    /// The path leads to another database by now. Nothing was done.
    OtherDatabase,
    /// There were no tokens left, and now there are some. Nothing was done.
    NeedsTokens,
}

impl Database {
    /// Opens the file without changing anything in it, because it may be any file.
    ///
    /// # Errors
    /// If it cannot be opened, or is no database of locks.
    pub(crate) fn connect(files: &Files, give_up: Instant) -> Result<Self, Failure> {
        let path = &files.database;
        let identity = files.identity().ok_or_else(|| {
            Failure::Refused(of_io("opening", path, std::io::ErrorKind::NotFound.into()).unsent())
        })?;
        wal_files::refuse_other_names(path)?;
        wal_files::wait_for_others(files, give_up)?;
        let found = WalFiles::of(files);
        let connection = connection::open(path)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let limit = TimeLimit::on(&connection)?;
        limit.set(give_up);
        if connection.is_readonly("main")? {
            return Err(Failure::Refused(read_only(path)));
        }
        retry::while_busy(give_up, || schema::inspect_snapshot(&connection, path))?;
        Ok(Self { connection, limit, identity, found, opened: None, epoch: 0 })
    }

    /// Whether the database and the files beside it still have the paths under which they were opened.
    pub(crate) fn is_in_place(&self, files: &Files) -> bool {
        self.opened.as_ref().is_some_and(|opened| opened.is_in_place(files))
    }

    /// Whether the path still leads to the same file.
    pub(crate) fn is_of(&self, files: &Files) -> bool {
        files.identity() == Some(self.identity)
    }

    pub(crate) fn opened(&self) -> Option<&OpenFiles> {
        self.opened.as_ref()
    }

    /// Creates the tables if there are none, and registers this process. Replaces `former`, an id of this process under which other
    /// processes can no longer see that it is alive.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(crate) fn join(
        &mut self,
        process_files: &ProcessFiles,
        former: Option<i64>,
        context: TransactionContext<'_>,
        give_up: Instant,
    ) -> Result<Effects, Failure> {
        let (files, folder) = (context.files, context.folder);
        retry::while_busy(give_up, || use_wal(&self.connection, &files.database))?;
        // The list of processes need not survive a loss of power; the first token of a file must.
        let empty = schema::inspect_snapshot(&self.connection, &files.database)? == DatabaseState::Empty;
        self.opened = Some(OpenFiles::take(self.identity, files, give_up)?);
        files.share().map_err(Failure::Refused)?;
        let synchronous = if empty { "FULL" } else { "NORMAL" };
        self.connection.pragma_update(None, "synchronous", synchronous)?;
        self.connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES_AT_JOIN)?;
        let domain = clock_domain::of_this_process()?;
        self.begin(Budget::Until(give_up))?;
        let (epoch, effects) =
            self.finish(self.register(process_files.member(), former, context, &domain))?;
        self.epoch = epoch;
        self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        // From here on `Checkpointer` does it, on a thread of its own.
        self.connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        process_lock::sweep(folder, |id| id == process_files.id() || self.is_known(id));
        Ok(effects)
    }

    /// In a transaction: creates missing tables, voids leases of another boot, removes dead processes, and registers this one.
    fn register(
        &self,
        me: Member,
        former: Option<i64>,
        context: TransactionContext<'_>,
        domain: &str,
    ) -> Result<(i64, Effects), Failure> {
        let (path, folder) = (&context.files.database, context.folder);
        if schema::inspect(&self.connection, path)? == DatabaseState::Empty {
            schema::create_tables(&self.connection, domain)?;
        }
        let (theirs, mut epoch) = self.connection.query_row("SELECT domain, epoch FROM meta", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        })?;
        let mut transaction = Transaction::begin(&self.connection, context)?;
        if theirs != domain {
            // PR32: times of another clock domain have no meaning here.
            if let Some(member) =
                transaction.members()?.iter().find(|member| process_lock::may_live(folder, member.id))
            {
                return Err(Failure::Refused(another_clock(path, member.id)));
            }
            epoch = transaction.void(domain)?;
        }
        if self.begins_a_wal() {
            transaction.skip_tokens()?;
        }
        if let Some(former) = former {
            transaction.inherit(former)?;
        }
        for member in transaction.members()? {
            if member.id != me.id && process_lock::is_dead(folder, &member) {
                reap(&mut transaction, member.id)?;
            }
        }
        self.connection.execute(
            "INSERT OR REPLACE INTO members VALUES (?1, ?2, ?3, ?4)",
            (me.id, std::process::id(), me.device.cast_signed(), me.inode.cast_signed()),
        )?;
        Ok((epoch, transaction.effects))
    }

    /// Whether this connection begins a new log, so that an earlier one was moved into the file, or was deleted.
    fn begins_a_wal(&self) -> bool {
        let wal = self.opened.as_ref().and_then(|opened| opened.wal_files().wal);
        self.found.wal.is_none() || self.found.wal != wal
    }

    /// Runs an operation as one transaction.
    ///
    /// # Errors
    /// If the operation or SQLite fails. Nothing was done then.
    pub(crate) fn write<T>(
        &mut self,
        context: TransactionContext<'_>,
        operation: &impl Fn(&mut Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<Outcome<T>, Failure> {
        let budget = context.budget;
        self.begin(budget)?;
        let done = Transaction::begin(&self.connection, context).and_then(|mut begun| {
            if begun.epoch != self.epoch {
                return Ok(Outcome::OtherDatabase);
            }
            if begun.lacks_tokens() {
                return Ok(Outcome::NeedsTokens);
            }
            let value = operation(&mut begun)?;
            Ok(Outcome::Committed(value, begun.effects))
        });
        if matches!(done, Ok(Outcome::Committed(..))) {
            return self.finish(done);
        }
        self.roll_back();
        if let (Ok(Outcome::NeedsTokens), Budget::Until(_)) = (&done, budget) {
            self.raise_ceiling(budget)?;
        }
        done
    }

    /// Raises the ceiling of tokens if all tokens below it were minted, and waits until the new one is on the disk. No token above the
    /// ceiling is ever minted, so tokens never repeat after a loss of power.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn raise_ceiling(&self, budget: Budget) -> Result<(), Failure> {
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        let raised = self.begin(budget).and_then(|()| {
            let raise = "UPDATE meta SET ceiling = CASE WHEN token < ?1 THEN token + ?2 ELSE ?3 END WHERE ceiling <= token";
            let raised = self.connection.execute(raise, (i64::MAX - TOKEN_BLOCK, TOKEN_BLOCK, i64::MAX));
            self.finish(raised.map_err(Failure::from))
        });
        self.connection.pragma_update(None, "synchronous", "NORMAL")?;
        raised.map(|_| ())
    }

    fn begin(&self, budget: Budget) -> Result<(), Failure> {
        let mut begin = self.connection.prepare_cached("BEGIN IMMEDIATE")?;
        let mut begin = || -> Result<(), Failure> {
            begin.execute([])?;
            Ok(())
        };
        let end = match budget {
            Budget::Immediate => begin().map(|()| Instant::now() + MOMENT),
            Budget::Until(give_up) => retry::while_busy(give_up, begin).map(|()| give_up),
        };
        self.limit.set(end?);
        Ok(())
    }

    /// Moves the pages of the log that no connection reads into the file. Returns false if another connection is doing that.
    ///
    /// # Errors
    /// An error of SQLite.
    pub(crate) fn checkpoint(&self) -> Result<bool, Failure> {
        let busy: bool = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(0))?;
        Ok(!busy)
    }

    /// Commits, or rolls back after a failure.
    fn finish<T>(&self, done: Result<T, Failure>) -> Result<T, Failure> {
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
        // SQLite may have rolled back by itself. If the rollback fails, the connection is not used again.
        let _ = self.connection.execute_batch("ROLLBACK");
    }

    fn is_known(&self, member: i64) -> bool {
        // If this is unknown, the files are kept.
        let find = "SELECT 1 FROM members WHERE id = ?1";
        let Ok(mut find) = self.connection.prepare_cached(find) else { return true };
        find.query_row([member], |_| Ok(())).optional().map_or(true, |found| found.is_some())
    }
}

fn use_wal(connection: &Connection, path: &Path) -> Result<(), Failure> {
    let mode = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, String>(0));
    if mode("PRAGMA journal_mode")? != "wal" {
        // The file is empty. A process that opens it at this moment must find no journal beside it.
        mode("PRAGMA journal_mode = MEMORY")?;
    }
    let mode = mode("PRAGMA journal_mode = WAL")?;
    if mode == "wal" {
        return Ok(());
    }
    let why = format!(
        "it has the journal mode `{mode}` and cannot be changed to `wal`; use a path on another file system"
    );
    Err(Failure::Refused(unsupported(path, &why)))
}

fn read_only(path: &Path) -> lock_core::BackendError {
    of_io("writing to", path, std::io::ErrorKind::ReadOnlyFilesystem.into()).unsent()
}

fn another_clock(path: &Path, member: i64) -> lock_core::BackendError {
    let why = format!(
        "it is in use by processes with another clock (a container with its own time namespace, a virtual machine): {member:016x} \
         is alive; use a separate file, or end these processes"
    );
    unsupported(path, &why)
}
