//! [`Store`]: an open database with everything that an operation needs, used by one thread at a time.

use std::{
    fs::File,
    path::PathBuf,
    time::{Duration, Instant},
};

use lock_core::{BackendError, FencingToken, Tombstones};
use rusqlite::Connection;

use crate::{
    database::{Database, Outcome},
    error::{self, Failure},
    files::Files,
    fork_check, new_database,
    notify::notifier::Notifier,
    outbox::Outbox,
    process_files::ProcessFiles,
    reap::reap,
    transaction::{Budget, Effects, Transaction, TransactionContext},
    wal_files::OpenFiles,
    writer::WriterCache,
};

/// How often an operation starts over in another file, or with more tokens, before it is given up.
const STARTS: u32 = 8;

/// After this many transactions of this process, a checkpoint is due: the log has some megabytes then.
const CHECKPOINT_AFTER: u64 = 1024;

/// After this many without a checkpoint, all threads of this process wait for one, however slow the disk is: otherwise the log would fill
/// the disk.
const WAIT_AFTER: u64 = 8 * CHECKPOINT_AFTER;

/// After this many, the thread that makes checkpoints must have failed, and the worker makes them.
const OVERDUE_AFTER: u64 = 2 * WAIT_AFTER;

/// A transaction that took longer than this met a busy disk, or its thread was not scheduled, which looks the same.
const SLOW: Duration = Duration::from_millis(1);

/// After a slow transaction, no transaction runs on a caller's thread for this many times as long; if the next one is slow again, for this
/// many times that pause.
const PAUSE_FACTOR: u32 = 4;

/// The maximum of this pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The store of an executor.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) files: Files,
    pub(crate) notifier: Notifier,
    /// How long a caller waits.
    patience: Duration,
    /// Opened at the first use, and again when the file was replaced.
    pub(crate) database: Option<Database>,
    pub(crate) process_files: Option<ProcessFiles>,
    tombstones: Tombstones,
    /// The number of transactions of this process, which SQLite does not report.
    pub(crate) commits: u64,
    /// The number of transactions of this process that may have admitted entries, and of openings of the file.
    pub(crate) changes: u64,
    /// The number of transactions when a checkpoint was last requested.
    requested_at: u64,
    /// The number of transactions when the whole log was last in the file.
    checkpointed_at: u64,
    /// The length of the pause without transactions on callers' threads, and its end. Zero if the last transaction was quick.
    inline_pause: (Duration, Option<Instant>),
    outbox: Outbox,
    /// The process that kept this one from writing.
    seen: WriterCache,
}

impl Store {
    pub(crate) fn new(files: Files, notifier: Notifier, patience: Duration) -> Self {
        let (tombstones, outbox) = (Tombstones::default(), Outbox::default());
        Self {
            files,
            notifier,
            patience,
            database: None,
            process_files: None,
            tombstones,
            commits: 0,
            changes: 0,
            requested_at: 0,
            checkpointed_at: 0,
            inline_pause: (Duration::ZERO, None),
            outbox,
            seen: WriterCache::default(),
        }
    }

    /// Runs an operation as one transaction. Its messages go to the outbox.
    ///
    /// # Errors
    /// If the operation fails. Nothing was done then, and it may be tried again.
    pub(crate) fn write<T>(
        &mut self,
        give_up: Instant,
        operation: impl Fn(&mut Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, BackendError> {
        for _ in 0..STARTS {
            self.open(give_up)?;
            // `open` has set both.
            let (Some(database), Some(process_files)) = (&mut self.database, &self.process_files) else {
                continue;
            };
            let (me, folder) = (process_files.id(), process_files.folder());
            let (files, notifier, tombstones) = (&self.files, &self.notifier, &mut self.tombstones);
            let context = TransactionContext {
                me,
                files,
                folder,
                notifier,
                tombstones,
                budget: Budget::Until(give_up),
            };
            match database.write(context, &operation) {
                Ok(Outcome::Committed(value, effects)) => {
                    self.done(effects);
                    return Ok(value);
                }
                Ok(Outcome::OtherDatabase) => self.database = None,
                Ok(Outcome::NeedsTokens) => {}
                Err(failure) => return Err(self.failed(failure)),
            }
        }
        Err(error::unsupported(
            &self.files.database,
            "the file is replaced again and again; see which program does that",
        ))
    }

    /// The same on the thread of a caller, which must not wait. Returns None, with nothing done, if it would have to wait for a writer, open
    /// the file, read many rows, or find out the reason of a failure.
    pub(crate) fn write_inline<T>(
        &mut self,
        operation: &impl Fn(&mut Transaction<'_>) -> Result<T, Failure>,
    ) -> Option<Result<T, BackendError>> {
        let started = Instant::now();
        if self.inline_pause.1.is_some_and(|until| started < until) || self.is_checkpoint_overdue() {
            return None;
        }
        let (database, process_files) = (self.database.as_mut()?, self.process_files.as_ref()?);
        if !database.is_in_place(&self.files) {
            return None;
        }
        let (me, folder) = (process_files.id(), process_files.folder());
        let (files, notifier, tombstones) = (&self.files, &self.notifier, &mut self.tombstones);
        let begun = database.write(
            TransactionContext { me, files, folder, notifier, tombstones, budget: Budget::Immediate },
            operation,
        );
        self.note_latency(started.elapsed());
        match begun {
            Ok(Outcome::Committed(value, effects)) => {
                self.done(effects);
                Some(Ok(value))
            }
            Err(failure @ (Failure::Refused(_) | Failure::Damaged(_))) => Some(Err(self.failed(failure))),
            Ok(Outcome::OtherDatabase | Outcome::NeedsTokens)
            | Err(Failure::Sqlite(_) | Failure::TakesTime) => None,
        }
    }

    /// Records how long a transaction took, so that a busy disk takes only a small part of callers' time.
    fn note_latency(&mut self, took: Duration) {
        self.inline_pause = if took > SLOW {
            let inline_pause = (took.max(self.inline_pause.0) * PAUSE_FACTOR).min(LONGEST_PAUSE);
            (inline_pause, Some(Instant::now() + inline_pause))
        } else {
            (Duration::ZERO, None)
        };
    }

    /// Whether a checkpoint is due. Returns true once for each.
    pub(crate) fn take_checkpoint_due(&mut self) -> bool {
        let due = self.commits - self.requested_at >= CHECKPOINT_AFTER;
        if due {
            self.requested_at = self.commits;
        }
        due
    }

    /// Whether all threads have to wait for a checkpoint.
    pub(crate) fn is_log_long(&self) -> bool {
        self.commits - self.checkpointed_at >= WAIT_AFTER
    }

    /// Whether a checkpoint is so late that the thread for them must have failed.
    pub(crate) fn is_checkpoint_overdue(&self) -> bool {
        self.commits - self.checkpointed_at >= OVERDUE_AFTER
    }

    /// The open files and the path, for one more connection. None if the path leads to another file by now.
    pub(crate) fn open_file(&mut self) -> Option<(OpenFiles, PathBuf)> {
        let database = self.database.as_ref().filter(|database| database.is_in_place(&self.files))?;
        Some((database.opened()?.share(), self.files.database.clone()))
    }

    /// Records that the whole log is in the file, and restarts.
    pub(crate) fn mark_checkpointed(&mut self) {
        self.checkpointed_at = self.commits;
    }

    /// Moves the log into the file, as far as other connections allow it.
    ///
    /// # Errors
    /// The failure.
    pub(crate) fn checkpoint(&mut self) -> Result<(), Failure> {
        let Some(database) = &self.database else { return Ok(()) };
        if database.checkpoint()? {
            self.mark_checkpointed();
        }
        Ok(())
    }

    /// Takes the messages, which are sent when the store is free again.
    pub(crate) fn take_outbox(&mut self) -> Outbox {
        std::mem::take(&mut self.outbox)
    }

    /// Reads from the database, which is opened if it is not open.
    ///
    /// # Errors
    /// If the file cannot be opened or read.
    pub(crate) fn read<T>(
        &mut self,
        give_up: Instant,
        read: impl Fn(&Connection, &ProcessFiles) -> Result<T, Failure>,
    ) -> Result<T, BackendError> {
        self.open(give_up)?;
        let (Some(database), Some(process_files)) = (&self.database, &self.process_files) else {
            return Err(error::unsupported(&self.files.database, "the file was not opened"));
        };
        database.limit.set(give_up);
        let done = read(&database.connection, process_files);
        database.limit.lift();
        done.map_err(|failure| self.failed(failure))
    }

    /// The error for callers. After any error, except for a busy or full database, the file is opened again.
    fn failed(&mut self, failure: Failure) -> BackendError {
        if failure.is_busy() {
            let writer = self.seen.writer(&self.files.database);
            return error::busy(&self.files.database, self.patience, writer.as_ref());
        }
        if matches!(failure, Failure::Sqlite(_)) && !failure.is_full() {
            self.database = None;
        }
        failure.at(&self.files.database)
    }

    fn done(&mut self, effects: Effects) {
        self.commits += 1;
        if let Some(process_files) = self.process_files.as_ref().filter(|_| !effects.is_empty()) {
            self.changes += 1;
            self.outbox.add(effects, process_files);
        }
    }

    /// Closes the file if it was moved or replaced since it was opened: while a process has only a part of its files, others cannot open
    /// it.
    pub(crate) fn close_if_moved(&mut self) {
        if !self.is_in_place() {
            self.database = None;
        }
    }

    fn is_in_place(&self) -> bool {
        self.database.as_ref().is_some_and(|database| database.is_in_place(&self.files))
    }

    /// Whether processes that come now see that this one is alive.
    fn is_seen(&self) -> bool {
        self.process_files
            .as_ref()
            .is_some_and(|process_files| process_files.is_in_place(&self.files.processes))
    }

    /// Opens the file if it is not open, or another one has its path by now.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(crate) fn open(&mut self, give_up: Instant) -> Result<(), BackendError> {
        if self.is_in_place() && self.is_seen() {
            return Ok(());
        }
        fork_check::check(&self.files.database)?;
        // A database that was moved is kept open until this process has opened the one at this path, so that no other process opens the
        // moved one in between. If the path leads to the same database, it is closed first, because it would block its own opening.
        let _elsewhere = self.database.take().filter(|database| !database.is_of(&self.files));
        new_database::prepare(&mut self.files)?;
        let opened = self.try_to_open(give_up);
        opened.map_err(|failure| self.failed(failure).unsent())
    }

    fn try_to_open(&mut self, give_up: Instant) -> Result<(), Failure> {
        let mut database = Database::connect(&self.files, give_up)?;
        // Only now, because no files are created beside a foreign file.
        let made = if self.is_seen() {
            None
        } else {
            Some(ProcessFiles::make(&self.files, &self.notifier).map_err(Failure::Refused)?)
        };
        // The former lock file stays locked until the database knows the new one: otherwise this process would be taken for dead.
        let former = self.process_files.as_ref().filter(|_| made.is_some()).map(ProcessFiles::id);
        // One of the two is set.
        let Some(process_files) = made.as_ref().or(self.process_files.as_ref()) else { return Ok(()) };
        let (me, folder) = (process_files.id(), process_files.folder());
        let (files, notifier, tombstones) = (&self.files, &self.notifier, &mut self.tombstones);
        let context =
            TransactionContext { me, files, folder, notifier, tombstones, budget: Budget::Until(give_up) };
        let joined = database.join(process_files, former, context, give_up);
        let gone = match (&joined, made) {
            (Ok(_), Some(made)) => self.process_files.replace(made),
            // No other process knows of the new files yet.
            (_, made) => made,
        };
        if let Some(gone) = gone {
            gone.remove();
        }
        let effects = joined?;
        self.database = Some(database);
        self.changes += 1;
        self.done(effects);
        Ok(())
    }

    /// Another handle to the lock file of this process.
    ///
    /// # Errors
    /// The failure.
    pub(crate) fn process_file(&mut self, give_up: Instant) -> Result<File, BackendError> {
        let folder = self.files.processes.clone();
        self.read(give_up, |_, process_files| {
            process_files
                .file()
                .map_err(|error| Failure::Refused(error::of_io("opening again a file in", &folder, error)))
        })
    }

    /// Makes all later tokens larger than `last`. Tokens never become smaller.
    ///
    /// # Errors
    /// The failure.
    pub(crate) fn raise_tokens(&mut self, give_up: Instant, last: FencingToken) -> Result<(), BackendError> {
        self.write(give_up, |transaction| transaction.raise_tokens(last))?;
        // After the answer, a caller may delete the old file, so the new tokens have to be on the disk before.
        let kept =
            self.database.as_ref().map_or(Ok(()), |database| database.raise_ceiling(Budget::Until(give_up)));
        kept.map_err(|failure| self.failed(failure))
    }

    /// Leaves the file in an orderly way: removes all entries of this process immediately.
    pub(crate) fn close(&mut self, give_up: Instant) {
        let known = self.database.is_some();
        let Some(me) = self.process_files.as_ref().map(ProcessFiles::id) else { return };
        let left = known && self.write(give_up, |transaction| reap(transaction, me)).is_ok();
        // If this process is still registered, its unlocked lock file has to stay, to show others that the process has ended.
        if let Some(process_files) = self.process_files.take().filter(|_| left) {
            process_files.remove();
        }
        // The last connection moves the log into the file when it closes, and waits for the disk.
        self.database = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_makes_a_checkpoint_itself_only_if_its_thread_has_not_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(Some(&folder.path().join("locks.db"))).unwrap();
        let mut store = Store::new(files, Notifier::default(), Duration::ZERO);
        // A process that has made checkpoints is no nearer to this than a new one.
        for before in [0, 1_000_000] {
            store.commits = before;
            store.mark_checkpointed();
            for (since, is_overdue) in [(0, false), (16 * 1024 - 1, false), (16 * 1024, true)] {
                store.commits = before + since;
                assert_eq!(store.is_checkpoint_overdue(), is_overdue, "{since} after {before}");
            }
        }
    }
}
